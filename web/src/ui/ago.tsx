import { showDistance, showFullInstant, showInstant, showSeconds } from "../format/duration.ts";
import { now } from "../store/clock.ts";

/** "4 s ago", exact on hover. */
export function Ago({ at }: { at: number | null | undefined }) {
  if (at == null) return <span class="quiet">–</span>;
  return (
    <time dateTime={new Date(at).toISOString()} title={showFullInstant(at)}>
      {showDistance(at, now.value)}
    </time>
  );
}

/** "14:03:22", the full date on hover. */
export function Instant({ at }: { at: number | null | undefined }) {
  if (at == null) return <span class="quiet">–</span>;
  return (
    <time dateTime={new Date(at).toISOString()} title={showFullInstant(at)}>
      {showInstant(at, now.value)}
    </time>
  );
}

/** "3m 20s": how long something has lasted, in whole seconds. */
export function Age({ since }: { since: number | null }) {
  if (since === null) return <span class="quiet">–</span>;
  return <>{showSeconds(Math.max(1_000, now.value - since))}</>;
}
