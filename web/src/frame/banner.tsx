import { connection, nextAttemptAt } from "../api/live.ts";
import { now } from "../store/clock.ts";

/** Says that what is on screen is old, and since when the page tries again. */
export function Banner() {
  if (connection.value !== "lost") return null;
  // Reads the clock, so that the seconds count down.
  const seconds = Math.max(
    0,
    Math.ceil((nextAttemptAt.value - Math.min(Date.now(), now.value + 60_000)) / 1_000),
  );
  return (
    <div class="banner" role="alert">
      <span class="dot look" />
      <span>
        The connection to the server is lost: what you see is not current.{" "}
        {seconds > 0 ? `The page tries again in ${seconds} s.` : "The page is trying again."}
      </span>
    </div>
  );
}
