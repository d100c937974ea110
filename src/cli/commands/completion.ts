import { RootCommand } from '@bomb.sh/tab';
import { Argument } from 'commander';
import { action, type Register } from '../context.ts';

const HELP = `
Prints a script that lets a shell complete mailkeep's commands, options, mailboxes, folders and search
operators. Names come from the archive, which is only read.

EXAMPLES
  source <(mailkeep completion bash)                                     in ~/.bashrc
  source <(mailkeep completion zsh)                                      in ~/.zshrc, after compinit
  mailkeep completion fish >~/.config/fish/completions/mailkeep.fish     once
  mailkeep completion powershell | Out-String | Invoke-Expression        in $PROFILE`;

export const register: Register = (command, run) => {
  command
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText('after', HELP)
    .action(action(run, ({ output }, shell: Shell) => output.text(shellScript(shell))));
};

/**
 * Passes the words to the program as text, without evaluating expressions such as `$(…)`. The library's PowerShell
 * script would evaluate them through Invoke-Expression. PowerShell before 7.3, including Windows PowerShell, drops an
 * empty argument unless it is written as two quotation marks.
 */
const POWERSHELL = `# PowerShell completion for mailkeep
Register-ArgumentCompleter -Native -CommandName mailkeep -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $asked = @(
        $commandAst.CommandElements |
            Select-Object -Skip 1 |
            Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
            ForEach-Object {
                if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value }
                else { $_.Extent.Text }
            }
    )
    $word = "$wordToComplete" -replace '["'']', ''
    if ($word -eq '' -and $PSVersionTable.PSVersion -lt [version]'7.3') { $asked += '""' }
    else { $asked += $word }
    mailkeep complete '--' @asked 2>$null | ForEach-Object {
        # Behind a tab stands a description, and in the last line what the other shells obey.
        $value, $description = "$_".Split([char]9, 2)
        if ($value -ne '' -and -not $value.StartsWith(':') -and
            $value.StartsWith($word, [System.StringComparison]::OrdinalIgnoreCase)) {
            # Unquoted, a comma makes an array, and an @ in front names a variable.
            $text = if ($value -match '^@|,') { "'$value'" } else { $value }
            $tip = if ([string]::IsNullOrWhiteSpace($description)) { $value } else { $description }
            [System.Management.Automation.CompletionResult]::new($text, $value, 'ParameterValue', $tip)
        }
    }
}`;

export const SHELLS = ['bash', 'zsh', 'fish', 'powershell'] as const;
type Shell = (typeof SHELLS)[number];

/**
 * Passes the words to the program without `eval`, which the library's bash script uses: redirections and substitutions
 * must not run before Enter. Bash splits `in:INBOX` into three words and replaces only the last, so completions must
 * not repeat the prefix.
 */
const BASH = `# bash completion for mailkeep
__mailkeep_words() {
    local cur prev words cword
    _get_comp_words_by_ref -n "=:" cur prev words cword
    words[cword]=$cur
    COMPREPLY=()
    local redirection='^[0-9]*(&>>?|<>|[<>]&|>\\||>>?|<<?<?)' asked=() target='' word i
    for (( i = 1; i <= cword; i++ )); do
        word=\${words[i]}
        if [[ -n "$target" ]]; then
            target=''
        elif [[ "$word" =~ $redirection ]]; then
            [[ "$word" == "\${BASH_REMATCH[0]}" ]] && target=next
        else
            asked+=("\${word//[\\"\\'\\\\]/}")
            continue
        fi
        # The target of a redirection is a file.
        if (( i == cword )); then compopt -o default; return; fi
    done
    cur=\${cur//[\\"\\'\\\\]/}
    local out line
    out=$(mailkeep complete -- "\${asked[@]}" 2>/dev/null)
    while IFS= read -r line; do
        # Behind a tab stands a description, and in the last line what the other shells obey.
        line=\${line%%$'\\t'*}
        if [[ -n "$line" && "$line" != :* && "$line" == "$cur"* ]]; then COMPREPLY+=("$line"); fi
    done <<< "$out"
    if [[ "$cur" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        local before=\${cur%"\${cur##*:}"}
        for i in "\${!COMPREPLY[@]}"; do COMPREPLY[i]=\${COMPREPLY[i]#"$before"}; done
    fi
    if [[ \${#COMPREPLY[@]} -eq 1 && "\${COMPREPLY[0]}" == *: ]]; then compopt -o nospace; fi
}
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    # Where the package bash-completion is missing: the words as bash cut them, so that quoted blanks do not cut, up to
    # the cursor, and together again where no blank stood between.
    _get_comp_words_by_ref() {
        local line=\${COMP_LINE:0:COMP_POINT} i word blank
        words=(); cword=-1
        for (( i = 0; i <= COMP_CWORD; i++ )); do
            word=\${COMP_WORDS[i]} blank=''
            while [[ "$line" == [[:space:]]* ]]; do line=\${line:1} blank=yes; done
            if (( i == COMP_CWORD )); then word=$line; fi
            line=\${line:\${#word}}
            if (( cword < 1 )) || [[ -n "$blank" ]]; then words[++cword]=$word; else words[cword]+=$word; fi
        done
        cur=\${words[cword]}
    }
fi
complete -F __mailkeep_words mailkeep`;

/** The library's zsh script evaluates this part of the last word, so it must be quoted as text. */
const ZSH_PREFIX = `flagPrefix="-P \${BASH_REMATCH}"`;

/**
 * Returns the script that a shell loads at startup.
 * @throws Error if the library's script is not the expected version
 */
function shellScript(shell: Shell): string {
  if (shell === 'bash') return BASH;
  if (shell === 'powershell') return POWERSHELL;
  const script = captureOutput(() => new RootCommand().setup('mailkeep', 'mailkeep', shell));
  if (shell === 'fish') return script;
  if (!script.includes(ZSH_PREFIX)) throw new Error('the script for zsh has changed');
  return script.replace(ZSH_PREFIX, () => `flagPrefix="-P \${(q)BASH_REMATCH}"`);
}

export function captureOutput(act: () => void): string {
  const lines: string[] = [];
  const { log } = console;
  console.log = (line: string) => lines.push(line);
  try {
    act();
  } finally {
    console.log = log;
  }
  return lines.join('\n');
}
