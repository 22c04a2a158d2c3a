/** Compares two version numbers such as "22.14.0", part by part. */
export function isOlder(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split(".").map(Number)) as [number[], number[]];
  const i = a.findIndex((part, at) => part !== (b[at] ?? 0));
  return i >= 0 && a[i]! < (b[i] ?? 0);
}
