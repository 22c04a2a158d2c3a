/** The colour of a task's cell: one of twelve hues, from its id, the same from add to end. */

export const HUES = 12;

/**
 * Ids contain the task's sequence number. Consecutive numbers are five hues apart, so that neighbours in the line
 * differ. The number is in the last group: 22 bits of it, then 26 of the store.
 */
export function hueOf(id: string): number {
  const sequence = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-([0-9a-f]{6})[0-9a-f]{6}$/.exec(
    id,
  )?.[1];
  if (sequence !== undefined) return ((parseInt(sequence, 16) >> 2) * 5) % HUES;
  let hash = 0;
  for (let at = 0; at < id.length; at++) hash = (Math.imul(hash, 31) + id.charCodeAt(at)) >>> 0;
  return hash % HUES;
}

/** Equal lightness, so that no cell stands out. */
export function colourOf(hue: number, isDark: boolean): string {
  return `oklch(${isDark ? "74%" : "66%"} 0.115 ${hue * (360 / HUES) + 15})`;
}
