/** The command palette (Ctrl-K): every page, every queue, and a task by its id, without a mouse. */

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { findCommands, type Command } from "../store/commands.ts";

const isOpen = signal(false);

export function openPalette(): void {
  isOpen.value = true;
}

addEventListener("keydown", (event) => {
  const isK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
  const isSlash = event.key === "/" && !isTyping(event.target);
  if (!isK && !isSlash) return;
  event.preventDefault();
  isOpen.value = isK ? !isOpen.value : true;
});

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

export function Palette() {
  return isOpen.value ? <OpenPalette /> : null;
}

function OpenPalette() {
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const commands = findCommands(text);
  const chosen = Math.min(at, commands.length - 1);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: "nearest" }), [chosen]);

  function run(command: Command | undefined) {
    if (!command) return;
    isOpen.value = false;
    command.run();
  }
  function press(event: KeyboardEvent) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt((chosen + step + commands.length) % Math.max(1, commands.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(commands[chosen]);
    }
  }
  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Go to a page, a queue or a task"
      onClose={() => (isOpen.value = false)}
      onClick={(event) => event.target === dialog.current && (isOpen.value = false)}
    >
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={chosen < 0 ? undefined : `palette-${chosen}`}
        aria-label="Page, queue, task id or action"
        placeholder="Page, queue, task id or action"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={press}
      />
      <ul id="palette-list" role="listbox" aria-label="Matches" ref={list}>
        {commands.map((command, index) => (
          <li
            key={command.name}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === chosen}
            onMouseMove={() => setAt(index)}
            onClick={() => run(command)}
          >
            <span class="clip">{command.name}</span>
            <span class="quiet">{command.kind}</span>
          </li>
        ))}
      </ul>
      <p class="palette-keys">
        <kbd>↑</kbd> <kbd>↓</kbd> choose, <kbd>Enter</kbd> opens. In lists, <kbd>j</kbd> and <kbd>k</kbd>{" "}
        move.
      </p>
    </dialog>
  );
}
