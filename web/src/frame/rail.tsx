/** The navigation on the left, with the store's name and health at its bottom. */

import { signal } from "@preact/signals";
import { connection, me } from "../api/live.ts";
import { signOut } from "../api/session.ts";
import { showDuration } from "../format/duration.ts";
import { showCount } from "../format/number.ts";
import { PAGES } from "../pages/pages.ts";
import { linkTo, page } from "../router/route.ts";
import { now } from "../store/clock.ts";
import { totals } from "../store/figures.ts";
import { nextTheme, theme } from "../store/preferences.ts";
import { Button } from "../ui/button.tsx";
import { openPalette } from "../ui/palette.tsx";

const isOpen = signal(false);

export function Rail() {
  return (
    <nav class={isOpen.value ? "rail open" : "rail"} aria-label="Pages">
      <a class="brand" href={linkTo([])}>
        <Mark />
        dibs
      </a>
      <span class="rail-toggle">
        <Button
          plain
          label={isOpen.value ? "Close the menu" : "Open the menu"}
          onClick={() => (isOpen.value = !isOpen.value)}
        >
          {isOpen.value ? "Close" : "Menu"}
        </Button>
      </span>
      <button class="rail-search" type="button" onClick={openPalette}>
        Go to… <kbd>Ctrl K</kbd>
      </button>
      {PAGES.map(({ name, path }) => (
        <a
          key={name}
          class="rail-link"
          href={linkTo(path)}
          aria-current={isCurrent(path) ? "page" : undefined}
          onClick={() => (isOpen.value = false)}
        >
          <span>{name}</span>
          <Count of={path[0] ?? ""} />
        </a>
      ))}
      <Foot />
    </nav>
  );
}

/** Three cells on their way: the sign of dibs. */
function Mark() {
  return (
    <svg viewBox="0 0 26 12" aria-hidden="true" fill="var(--accent)">
      <rect width="12" height="12" rx="3" />
      <rect x="14.5" width="6" height="12" rx="2" opacity=".55" />
      <rect x="23" width="3" height="12" rx="1.5" opacity=".3" />
    </svg>
  );
}

function isCurrent([first = ""]: string[]): boolean {
  const at = page.value === "queues" ? "" : page.value === "runs" ? "pipelines" : page.value;
  return at === first;
}

function Count({ of }: { of: string }) {
  const figures = totals.value;
  if (!figures) return null;
  const [count, tone] = {
    "": [figures.queues],
    workers: [figures.workers],
    dead: [figures.dead, "red"],
    alerts: [figures.alerts, "amber"],
  }[of] ?? [0];
  if (!count) return null;
  return <span class={(tone as string | undefined) ?? "quiet"}>{showCount(count as number)}</span>;
}

function Foot() {
  const known = me.value;
  const problem = totals.value?.problem ?? null;
  const [tone, state] =
    connection.value === "lost"
      ? ["bad", "The connection is lost."]
      : problem !== null
        ? ["look", problem]
        : ["ok", "The store answers."];
  return (
    <div class="rail-foot">
      {known && (
        <>
          <div class="store" title={state}>
            <span class={`dot ${tone}`} role="img" aria-label={state} />
            <span class="clip">{known.store ?? "dibs"}</span>
          </div>
          <div>
            {known.version} · up{" "}
            {showDuration(Math.max(60_000, Math.floor((now.value - known.startedAt) / 60_000) * 60_000))}
          </div>
        </>
      )}
      <div class="rail-tools">
        <Button small plain label={`Theme: ${theme.value}. Change it`} onClick={nextTheme}>
          Theme: {theme.value}
        </Button>
        {known?.name != null && (
          <Button small plain label={`Signed in as ${known.name}. Sign out`} onClick={() => signOut("")}>
            Sign out
          </Button>
        )}
      </div>
    </div>
  );
}
