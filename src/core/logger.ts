/** Any logger will do: console, pino. Payloads are never logged. */
export interface Logger {
  warn(message: string, details?: object): void;
  error(message: string, details?: object): void;
}

export const SILENT: Logger = { warn() {}, error() {} };
