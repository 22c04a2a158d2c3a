import { Argument, Command } from "commander";
import { oneOf } from "../values.ts";

/** Scripts that ask `dibs complete` for what may follow. Without an answer, file names are offered. */
const SCRIPTS = {
  bash: `# eval "$(dibs completion bash)", for example in ~/.bashrc
_dibs() {
  local IFS=$'\\n'
  COMPREPLY=($(dibs complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [ \${#COMPREPLY[@]} -gt 0 ] || compopt -o default
}
complete -F _dibs dibs`,
  zsh: `# eval "$(dibs completion zsh)", for example in ~/.zshrc after compinit
_dibs() {
  local -a found
  found=("\${(@f)$(dibs complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found" ]]; then compadd -- $found; else _files; fi
}
compdef _dibs dibs`,
  fish: `# dibs completion fish > ~/.config/fish/completions/dibs.fish
complete -c dibs -f -a '(dibs complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'`,
} as const;

const SHELLS = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];

export function completionCommand(): Command {
  const shell = new Argument("<shell>", SHELLS.join(", ")).choices(SHELLS).argParser(oneOf(SHELLS));
  return new Command("completion").addArgument(shell).action((name: keyof typeof SCRIPTS) => {
    process.stdout.write(`${SCRIPTS[name]}\n`);
  });
}
