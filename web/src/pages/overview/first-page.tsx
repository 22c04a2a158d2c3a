/** What an empty store shows: how to add the first task, and a button that starts real traffic to look at. */

import { useState } from "preact/hooks";
import { call } from "../../api/call.ts";
import type { Demo } from "../../api/contract.ts";
import { me } from "../../api/live.ts";
import { go, linkTo } from "../../router/route.ts";
import { Button } from "../../ui/button.tsx";
import { Copy } from "../../ui/copy.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { sayError } from "../../ui/toast.tsx";

export function FirstPage() {
  const url = new URL(document.baseURI).href.replace(/\/$/, "");
  const [busy, setBusy] = useState(false);
  async function start() {
    setBusy(true);
    try {
      const { queue } = await call<Demo>("v1/demo", { body: { running: true } });
      go(linkTo(["queues", queue]));
    } catch (error) {
      sayError(error);
      setBusy(false);
    }
  }
  return (
    <>
      <PageHead title="Welcome" />
      <div class="card first">
        <h2>Nothing is here yet. Three lines change that.</h2>
        <ol>
          <li>
            <p>Let this shell talk to this server.</p>
            <Copy text={`export DIBS_URL=${url}`} />
          </li>
          <li>
            <p>Add a task. The queue is created with it.</p>
            <Copy text={`dibs add emails '{"to":"ada@example.com"}'`} />
          </li>
          <li>
            <p>Do the work. Any program can be a worker: it gets the task on its standard input.</p>
            <Copy text="dibs work emails -- cat" />
          </li>
        </ol>
        <p class="quiet first-note">In a clone of the repository, the command is ./dibs.</p>
        {me.value?.demo && (
          <div class="first-demo">
            <p>
              Or watch first: the demo starts real producers and workers on this server, some of which fail
              and crash.
            </p>
            <Button main disabled={busy} onClick={() => void start()}>
              {busy ? "Starting…" : "Start the demo’s traffic"}
            </Button>
          </div>
        )}
      </div>
    </>
  );
}
