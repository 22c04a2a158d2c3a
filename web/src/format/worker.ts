/** The store names a worker by its instance, "mailer-2#d7fcb5f4". People know it by its name. */
export function workerName(instance: string): string {
  return instance.replace(/#[0-9a-f]{8}$/, "");
}
