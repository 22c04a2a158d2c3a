/** What a page's caller may see and do. The server makes one from the caller's token (server/desks.ts). */
export interface Viewer {
  /** The token's name, for jobs and the audit log. */
  readonly name: string;
  /** Equal texts mean equal rights: such viewers share what is computed for them. */
  readonly scopes: string;
  readonly readsAll: boolean;
  reads(queue: string): boolean;
  administers(queue: string): boolean;
  /** Whether the caller may still see anything: false after its token was revoked. */
  isWelcome(): boolean;
}
