/** Any logger works, such as console or pino. Payloads are never logged. */
export interface Logger {
  warn(message: string, details?: object): void;
  error(message: string, details?: object): void;
}

/** The default: one line per message on standard error. */
export const STANDARD_ERROR: Logger = {
  warn: (message) => console.warn(`dibs: ${message}`),
  error: (message) => console.error(`dibs: ${message}`),
};

export const SILENT: Logger = { warn() {}, error() {} };
