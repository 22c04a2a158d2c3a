/** The page that asks for a token. */

import { useRef, useState } from "preact/hooks";
import { ApiError, inWords, send } from "../api/call.ts";
import { signIn } from "../api/session.ts";
import { Button } from "../ui/button.tsx";
import { Copy } from "../ui/copy.tsx";
import { Failure } from "../ui/dialog.tsx";

export function SignIn({ reason }: { reason: string }) {
  const [failure, setFailure] = useState<string | null>(reason === "" ? null : reason);
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  async function submit(token: string) {
    setBusy(true);
    try {
      // Tried before it is kept.
      await send("v1/me", { token });
      signIn(token);
    } catch (error) {
      const isRefused = error instanceof ApiError && error.status === 401;
      setFailure(
        isRefused ? "The server does not know this token. It may be mistyped, or revoked." : inWords(error),
      );
    }
    setBusy(false);
  }
  return (
    <main class="sign-in">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          void submit(field.current!.value.trim());
        }}
      >
        <h1>Sign in to dibs</h1>
        <p class="quiet">
          This server asks for a token. It stays in this tab and is sent to this server only.
        </p>
        <label class="field">
          <span>Token</span>
          <input
            ref={field}
            class="input"
            name="token"
            type="password"
            autocomplete="off"
            required
            autofocus
            spellcheck={false}
          />
        </label>
        <Failure text={failure} />
        <Button type="submit" main disabled={busy}>
          Sign in
        </Button>
        <p class="quiet">No token yet? Who runs the server creates one:</p>
        <Copy text="dibs tokens add dashboard --scope read:*" />
      </form>
    </main>
  );
}
