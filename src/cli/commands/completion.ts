import { Argument, Command } from "commander";
import { oneOf } from "../values.ts";

/**
 * Scripts that ask `dibs complete` for what may follow. Without an answer, file names are offered. Bash splits words at
 * colons too, which queues and addresses contain: its script splits the line by itself, and offers only what follows the
 * last colon.
 */
const SCRIPTS = {
  bash: `# eval "$(dibs completion bash)", for example in ~/.bashrc
_dibs() {
  local line=\${COMP_LINE:0:COMP_POINT} words word
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  word=\${words[\${#words[@]} - 1]}
  local IFS=$'\\n'
  COMPREPLY=($(dibs complete -- "\${words[@]:1}" 2>/dev/null))
  [[ $COMP_WORDBREAKS == *:* ]] && COMPREPLY=("\${COMPREPLY[@]#"\${word%"\${word##*:}"}"}")
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
function __dibs_complete
  set -l found (dibs complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c dibs -f -a '(__dibs_complete)'`,
} as const;

const SHELLS = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];

export function completionCommand(): Command {
  const shell = new Argument("<shell>", SHELLS.join(", ")).choices(SHELLS).argParser(oneOf(SHELLS));
  return new Command("completion").addArgument(shell).action((name: keyof typeof SCRIPTS) => {
    process.stdout.write(`${SCRIPTS[name]}\n`);
  });
}
