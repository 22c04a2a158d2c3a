/** Any logger works, such as console or pino. Payloads are never logged. */
export interface Logger {
  warn(message: string, details?: object): void;
  error(message: string, details?: object): void;
}

export const SILENT: Logger = { warn() {}, error() {} };
