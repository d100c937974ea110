import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { offer } from '../../src/cli/commands/completion-answer.ts';
import { mailkeep, program } from './child.ts';

let folder: string;
let data: string;
let env: Record<string, string>;
/** What `mailkeep completion bash` prints. */
let script: string;

const PLACE = { host: 'mail.example.net', mailbox: 'AC1' };
const FOLDERS = ['INBOX', 'INBOX.Sent', 'Rechnungen', '$(touch owned)', '`touch owned`', 'a;b'];

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-completion-'));
  data = path.join(folder, 'data');
  mkdirSync(data);
  const log = await openLogWriter({ dir: data, now: () => 1 });
  const batch = log.newBatch();
  batch.addFact({ fact: 'mailbox', ...PLACE, address: 'ada@example.org' });
  for (const name of FOLDERS) {
    const spot = { ...PLACE, folder: name, name, delimiter: '.', specialUse: null, generation: 1 };
    batch.addFact({ fact: 'folder', ...spot });
  }
  const committed = await log.commit(batch);
  await log.close();
  const catalog = await openCatalog(data);
  catalog.foldBatch(committed);
  catalog.close();
  const bin = path.join(folder, 'bin');
  mkdirSync(bin);
  const command = path.join(bin, 'mailkeep');
  writeFileSync(command, `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`);
  chmodSync(command, 0o755);
  env = { PATH: `${bin}:${process.env.PATH ?? ''}`, HOME: folder, TERM: 'dumb' };
  script = path.join(bin, 'completion.bash');
  writeFileSync(script, (await mailkeep(['completion', 'bash'])).stdout);
});
afterAll(() => expect(readdirSync(folder)).not.toContain('owned'));

const has = (shell: string): boolean => spawnSync(shell, ['--version']).error === undefined;

/** What bash offers for a line, by the script as a user has it; `words` as bash cuts it, where blanks are not all. */
function inBash(line: string, words?: readonly string[]): string[] {
  const asked = `source ${script} && source ${script}
    COMP_LINE=$1; COMP_POINT=\${#1}; read -ra COMP_WORDS <<< "$1"; [[ $1 == *' ' ]] && COMP_WORDS+=("")
    [[ $# -gt 1 ]] && COMP_WORDS=("\${@:2}")
    COMP_CWORD=$(( \${#COMP_WORDS[@]} - 1 )); compopt() { :; }
    __mailkeep_words; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const out = execFileSync('bash', ['--norc', '-c', asked, 'bash', line, ...(words ?? [])], {
    env,
    cwd: folder,
    encoding: 'utf8',
  });
  return out.split('\n').filter((word) => word !== '');
}

describe('bash', () => {
  test('takes the script as the help says', () => {
    const asked = 'source <(mailkeep completion bash) && complete -p mailkeep';
    const out = execFileSync('bash', ['--norc', '-c', asked], { env, encoding: 'utf8' });
    expect(out).toBe('complete -F __mailkeep_words mailkeep\n');
  });

  test('completes commands, options and values from the archive', () => {
    expect(inBash('mailkeep sear')).toEqual(['search']);
    expect(inBash('mailkeep show --ra')).toEqual(['--raw']);
    expect(inBash(`mailkeep --data ${data} list --folder I`)).toEqual(['INBOX', 'INBOX.Sent']);
    expect(inBash(`mailkeep --data ${data} list --mailbox `)).toEqual(['ada@example.org']);
    expect(inBash('mailkeep completion ')).toEqual(['bash', 'zsh', 'fish', 'powershell']);
    expect(inBash('mailkeep list --for')).toEqual(['--format']);
    expect(inBash('mailkeep list --format ')).toEqual(['text', 'ids', 'csv']);
    expect(inBash('mailkeep search --no-c')).toEqual(['--no-color']);
    expect(inBash('mailkeep list -')).toEqual(expect.arrayContaining(['-n', '-v']));
  });

  test('completes operators, and their values behind the colon', () => {
    expect(inBash('mailkeep search fro')).toEqual(['from:']);
    expect(inBash('mailkeep search is:unr')).toEqual(['unread']);
    expect(inBash(`mailkeep --data ${data} search in:Re`)).toEqual(['Rechnungen']);
  });

  test('takes a quoted blank for part of a word, and joins what is cut at a colon', () => {
    const spaced = path.join(folder, 'a b');
    symlinkSync(data, spaced);
    const quoted = `'${spaced}'`;
    const begun = ['mailkeep', '--data', quoted, 'search'];
    expect(inBash(`${begun.join(' ')} in:Re`, [...begun, 'in', ':', 'Re'])).toEqual(['Rechnungen']);
    expect(inBash(`${begun.join(' ')} in:`, [...begun, 'in', ':', ''])).toContain('Rechnungen');
    expect(inBash(`${begun.join('  ')} in:`, [...begun, 'in', ':'])).toContain('Rechnungen');
  });

  test('offers no folder that a shell would obey', () => {
    const offered = inBash(`mailkeep --data ${data} list --folder `);
    expect(offered).toEqual(['INBOX', 'INBOX.Sent', 'Rechnungen']);
  });
});

describe('what stands on the line does not act before Enter', () => {
  test.each([
    `show ID --raw > precious.eml `,
    `show ID --raw >precious.eml `,
    `show ID --raw >> precious.eml --r`,
    `show ID --raw &> precious.eml `,
    `show ID --raw 2>precious.eml `,
    `show ID --raw > prec`,
    'search $(:>owned) ',
    'search `:>owned` ',
    'search x;touch owned ',
    'search "$(touch owned)" is:unr',
  ])('bash: %s', (line) => {
    const precious = path.join(folder, 'precious.eml');
    writeFileSync(precious, 'precious');
    inBash(`mailkeep ${line}`);
    expect(readFileSync(precious, 'utf8')).toBe('precious');
    expect(readdirSync(folder)).not.toContain('owned');
  });

  test('bash completes behind a redirection and within quotes', () => {
    expect(inBash('mailkeep show ID > precious.eml --ra')).toEqual(['--raw']);
    expect(inBash('mailkeep 2>precious.eml sear')).toEqual(['search']);
    expect(inBash('mailkeep search "$(touch owned)" "is:unr')).toEqual(['unread']);
    expect(inBash(`mailkeep --data '${data}' list --folder Re`)).toEqual(['Rechnungen']);
  });

  test.runIf(has('zsh'))('zsh', () => {
    const asked = `compdef() { :; }; source <(mailkeep completion zsh)
      _describe() { return 0; }; _arguments() { return 0; }; compadd() { :; }
      words=(mailkeep list $1); CURRENT=3; _mailkeep`;
    for (const word of ['--folder=$(:>owned)=', '--folder=`:>owned`=']) {
      execFileSync('zsh', ['-f', '-c', asked, 'zsh', word], { env, cwd: folder });
      expect(readdirSync(folder)).not.toContain('owned');
    }
  });
});

test.runIf(has('fish'))('fish takes the script, and completes', () => {
  const asked = `mailkeep completion fish | source; complete -C 'mailkeep --data ${data} list --folder Re'`;
  const out = execFileSync('fish', ['-N', '-c', asked], { env, cwd: folder, encoding: 'utf8' });
  expect(out.trim()).toMatch(/^Rechnungen/);
});

test('PowerShell asks the program with words, and evaluates nothing of the line', async () => {
  const { code, stdout } = await mailkeep(['completion', 'powershell']);
  expect(code).toBe(0);
  expect(stdout).toContain('Register-ArgumentCompleter -Native -CommandName mailkeep');
  expect(stdout).toContain("mailkeep complete '--' @asked");
  expect(stdout).not.toMatch(
    /Invoke-Expression|\biex\b|ScriptBlock\]::Create|ExpandString|EvaluateAttribute/i,
  );
});

test.runIf(has('pwsh'))('PowerShell completes, and what stands on the line does not act', () => {
  const asked = `mailkeep completion powershell | Out-String | Invoke-Expression
    foreach ($line in $env:LINES_TO_COMPLETE.Split([char]10)) {
      (TabExpansion2 $line $line.Length).CompletionMatches.CompletionText -join ' '
    }`;
  const lines = [
    `mailkeep --data ${data} list --folder Re`,
    'mailkeep list --for',
    'mailkeep list "$(Set-Content owned x)" --for',
    'mailkeep list $(Set-Content owned x) --for',
  ];
  const out = execFileSync('pwsh', ['-NoProfile', '-Command', asked], {
    env: { ...env, LINES_TO_COMPLETE: lines.join('\n') },
    cwd: folder,
    encoding: 'utf8',
  });
  expect(out.trim().split(/\r?\n/)).toEqual(['Rechnungen', '--format', '--format', '--format']);
});

test.runIf(has('zsh'))('zsh takes the script', () => {
  const asked =
    'autoload -Uz compinit && compinit -u -D; source <(mailkeep completion zsh); print $_comps[mailkeep]';
  const out = execFileSync('zsh', ['-f', '-c', asked], { env, cwd: folder, encoding: 'utf8' });
  expect(out.trim()).toBe('_mailkeep');
});

test('asking is silent where there is no archive, or a broken one, and writes nothing', async () => {
  const before = readdirSync(data).map((name) => [name, statSync(path.join(data, name)).mtimeMs]);
  for (const where of [path.join(folder, 'nowhere'), folder, data]) {
    const words = ['--data', where, 'list', '--folder', ''];
    const { code, stderr } = await mailkeep(['complete', '--', ...words]);
    expect([code, stderr]).toEqual([0, '']);
  }
  expect(readdirSync(folder)).not.toContain('nowhere');
  const database = (name: unknown) => !String(name).startsWith('catalog.sqlite-');
  const after = readdirSync(data).map((name) => [name, statSync(path.join(data, name)).mtimeMs]);
  expect(after.filter(([name]) => database(name))).toEqual(
    before.filter(([name]) => database(name)),
  );
});

test('what is offered has no character that a shell obeys', () => {
  const values = () =>
    ['ok', 'a b', '$x', '`x`', 'x;y', 'a|b', "it's", 'a"b', '\u001b[2J', 'a\tb', 'ü.ö'].map(
      (value) => ({ value }),
    );
  const offered: string[] = [];
  offer(values)((value) => offered.push(value));
  expect(offered).toEqual(['ok', 'ü.ö']);
});
