/** Milliseconds of CPU time. On a busy machine, the time on the wall says little about the work. */
export function cpuTimeOf(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
