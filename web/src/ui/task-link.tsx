import { linkTo } from "../router/route.ts";

/** The end of an id is what differs between tasks; the whole id is in the title. */
export function TaskLink({ id, cover = false }: { id: string; cover?: boolean }) {
  return (
    <a class={cover ? "code cover" : "code"} href={linkTo(["tasks", id])} title={id}>
      {shortId(id)}
    </a>
  );
}

/** The time at the start is the same for tasks of one moment, and the store's number at the end for all. */
export function shortId(id: string): string {
  return id.length === 36 ? `${id.slice(4, 13)}…${id.slice(24, 30)}` : id;
}
