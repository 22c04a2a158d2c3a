/** The value of a colour token in the current theme, for what is drawn on a canvas. */

const probe = document.createElement("span");
probe.className = "unseen";
probe.setAttribute("aria-hidden", "true");

export function readColour(token: string): string {
  // The browser resolves var() and light-dark() for a real property only.
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(--${token})`;
  return getComputedStyle(probe).color;
}
