// Shows the demo while it runs: redrawn in place on a terminal, as lines elsewhere.

import { frame, plainLine, type Scene } from "./frame.ts";
import { clock, terminal } from "./paint.ts";

const REDRAW_MS = 200;
const LINE_MS = 2_000;

/** Returns a function that restores the terminal. */
export function show(scene: Scene): () => void {
  const { stdout } = process;
  return stdout.isTTY && process.env["TERM"] !== "dumb" ? redraw(scene, stdout) : printLines(scene);
}

function redraw(scene: Scene, stdout: NodeJS.WriteStream): () => void {
  const draw = (): void => {
    const lines = frame(scene, stdout.columns || 80, stdout.rows || 24);
    const text = lines.map((line) => line + terminal.restOfLine).join("\r\n");
    stdout.write(terminal.home + text + terminal.restOfScreen);
  };
  const leave = (): void => void stdout.write(terminal.leave);
  // However this process ends, the cursor is shown again.
  process.once("exit", leave);
  stdout.write(terminal.enter);
  const timer = setInterval(draw, REDRAW_MS);
  return () => {
    clearInterval(timer);
    process.removeListener("exit", leave);
    leave();
  };
}

function printLines(scene: Scene): () => void {
  scene.story.onNews((text) => console.log(`${clock(scene.story.seconds)} * ${text}`));
  const timer = setInterval(() => console.log(plainLine(scene)), LINE_MS);
  return () => clearInterval(timer);
}
