/**
 * `Promise.all` for statements of one transaction, except that it rejects only after all have settled. Otherwise a
 * statement that is still pending would be answered during the next transaction of this connection, and the code behind it
 * would use its answer, or send more statements, there.
 */
export async function allAnswered<const Asked extends readonly unknown[]>(
  asked: Asked,
): Promise<{ -readonly [I in keyof Asked]: Awaited<Asked[I]> }> {
  const answers = Promise.all(asked);
  await Promise.allSettled([answers, ...asked]);
  return answers;
}
