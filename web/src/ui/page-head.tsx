import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

interface PageHeadProps {
  title: string;
  crumb?: ComponentChildren;
  /** The main numbers, beside the title. */
  facts?: ComponentChildren;
  actions?: ComponentChildren;
}

/** The only top bar: the title, its main numbers, its actions. */
export function PageHead({ title, crumb, facts, actions }: PageHeadProps) {
  useEffect(() => {
    document.title = `${title} · dibs`;
  }, [title]);
  return (
    <header class="page-head">
      <h1>
        {crumb && <span class="crumb">{crumb}</span>}
        {title}
      </h1>
      {facts && <div class="facts">{facts}</div>}
      {actions && <div class="actions">{actions}</div>}
    </header>
  );
}

export function Fact({
  value,
  of,
  tone,
  exact,
}: {
  value: string;
  of: string;
  tone?: "red" | "amber" | undefined;
  exact?: string;
}) {
  return (
    <span title={exact}>
      <b class={tone}>{value}</b>
      {of}
    </span>
  );
}
