import type { ComponentChildren } from "preact";
import { Copy } from "./copy.tsx";

interface EmptyProps {
  title: string;
  children: ComponentChildren;
  /** The next step, as lines to copy. */
  commands?: string[];
}

/** Instead of an empty list: what it would show, and the next step. */
export function Empty({ title, children, commands = [] }: EmptyProps) {
  return (
    <div class="card empty">
      <h2>{title}</h2>
      <p class="quiet">{children}</p>
      {commands.map((command) => (
        <Copy key={command} text={command} />
      ))}
    </div>
  );
}
