/** The frame around all pages: the rail, the banner of a lost connection, dialogs and messages. */

import { me } from "./api/live.ts";
import { signInReason } from "./api/session.ts";
import { Banner } from "./frame/banner.tsx";
import { Jobs } from "./frame/jobs.tsx";
import { Rail } from "./frame/rail.tsx";
import { SignIn } from "./frame/sign-in.tsx";
import { Page } from "./pages/page.tsx";
import { DialogHost } from "./ui/dialog.tsx";
import { Palette } from "./ui/palette.tsx";
import { Toasts } from "./ui/toast.tsx";

export function App() {
  if (signInReason.value !== null) return <SignIn reason={signInReason.value} />;
  return (
    <>
      <a class="skip" href="#page">
        Skip to the content
      </a>
      <div class="frame">
        <Rail />
        <div>
          <Banner />
          <main id="page" class="page" tabIndex={-1}>
            {me.value === null ? null : <Page />}
          </main>
        </div>
      </div>
      <Jobs />
      <DialogHost />
      <Palette />
      <Toasts />
    </>
  );
}
