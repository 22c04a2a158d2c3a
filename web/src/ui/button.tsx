import type { ComponentChildren } from "preact";

interface ButtonProps {
  children: ComponentChildren;
  onClick?: (event: MouseEvent) => void;
  /** For screen readers, where the text is a sign. */
  label?: string;
  title?: string;
  type?: "button" | "submit";
  main?: boolean;
  danger?: boolean;
  plain?: boolean;
  small?: boolean;
  disabled?: boolean;
  pressed?: boolean;
}

export function Button({
  children,
  onClick,
  label,
  title,
  type = "button",
  disabled,
  pressed,
  ...looks
}: ButtonProps) {
  const kinds = Object.entries(looks).flatMap(([name, on]) => (on ? [name] : []));
  return (
    <button
      class={["button", ...kinds].join(" ")}
      type={type}
      onClick={onClick}
      aria-label={label}
      title={title ?? label}
      disabled={disabled}
      aria-pressed={pressed}
    >
      {children}
    </button>
  );
}
