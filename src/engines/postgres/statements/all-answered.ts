/**
 * For what is asked together within a transaction. As `Promise.all`, but a failure is told only when each has ended: one
 * that is still on its way would end in the next transaction, and bring there what it read in this one, or send there what
 * was to follow.
 */
export async function allAnswered<const Asked extends readonly unknown[]>(
  asked: Asked,
): Promise<{ -readonly [I in keyof Asked]: Awaited<Asked[I]> }> {
  const answers = Promise.all(asked);
  await Promise.allSettled([answers, ...asked]);
  return answers;
}
