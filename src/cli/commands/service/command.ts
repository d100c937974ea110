import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { type Command, Option } from 'commander';
import { isPiped } from '../../../config/file.ts';
import { loadConfig } from '../../../config/load.ts';
import { locateConfig } from '../../../config/locate.ts';
import type { Settings } from '../../../config/settings.ts';
import { makeFolders } from '../../../disk/make-folders.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { errnoOf } from '../../../errors/mailkeep-error.ts';
import { serviceUnitsError } from '../../../errors/small-families.ts';
import { usageError } from '../../../errors/usage.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import type { Body, CommandContext } from '../../context.ts';
import { type NoAccess, withoutAccess } from './access.ts';
import {
  STATE_DIRECTORY,
  systemFiles,
  type UnitFacts,
  type UnitFile,
  USER,
  unitFiles,
} from './units.ts';

interface InstallLine extends Pick<InstallCommand, 'root'> {
  readonly user?: boolean;
  readonly system?: boolean;
  readonly dryRun?: boolean;
  readonly force?: boolean;
}

const HELP = `
Writes units for systemd: mailkeep.service, which runs the daemon, and mailkeep-sync.timer for a sync every
quarter of an hour instead. Nothing is enabled or started; the commands for that are printed.

--user writes units for your own service manager (~/.config/systemd/user). --system writes units for the
machine, with a dedicated user, the archive in /var/lib/mailkeep and the hardening that docs/operations.md
explains. Where the configuration says {"credential": "NAME"}, tokens come from files in /etc/mailkeep that
only root can read.

EXAMPLES
  mailkeep service install --user
  mailkeep service install --system --dry-run
  sudo mailkeep service install --system --config /etc/mailkeep/config.json`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command.usage('install [options]').helpCommand(false).addHelpText('after', HELP);
  command
    .command('install')
    .summary('write units for systemd')
    .description('write units for systemd')
    .option('--user', 'for the service manager of this user')
    .addOption(
      new Option('--system', 'for the machine (default when run as root)').conflicts('user'),
    )
    .option('--dry-run', 'print the files instead of writing them')
    .option('--force', 'replace files with other content')
    .option('--root <dir>', 'a folder to write below, for packages', '/')
    .action(({ user = false, system, dryRun = false, force = false, root }: InstallLine) =>
      chosen((context) => {
        const isSystem = system ?? (process.getuid?.() === 0 && !user);
        const scope = isSystem ? 'system' : 'user';
        return installService(context, { scope, dryRun, force, root });
      }),
    );
}

/** Replaces a file as a whole, and makes that durable. Units hold no secrets: everybody may read them. */
function putFile(file: string, content: string): void {
  const temporary = `${file}.${process.pid}.tmp`;
  const descriptor = openSync(temporary, 'wx', 0o644);
  try {
    writeFileSync(descriptor, content);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(temporary, file);
  const folder = openSync(path.dirname(file), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

interface InstallCommand {
  readonly scope: 'system' | 'user';
  readonly dryRun: boolean;
  readonly force: boolean;
  /** Put before every path that is written: for packages. */
  readonly root: string;
}

const ETC = '/etc/mailkeep';

/** `mailkeep service install`: writes the units, and says what to type next. Starts nothing. */
async function installService(
  context: CommandContext,
  { scope, dryRun, force, root }: InstallCommand,
): Promise<ExitCode> {
  const settings = settingsFor(context);
  const facts = factsFor(context, scope, settings);
  const files = filesFor(context, scope, facts).map(({ path: file, content }) => ({
    path: path.join(root, file),
    content,
  }));
  const kept = files.filter(({ path: file, content }) => differs(file, content));
  if (kept.length > 0 && !force && !dryRun) {
    throw serviceUnitsError('service-units-differ', { files: kept.map(({ path: file }) => file) });
  }
  const access = scope === 'system' && root === '/' ? accessOf(facts, settings) : [];
  const next = nextSteps(facts, access);
  if (!dryRun) {
    for (const { path: file, content } of files) written(file, content);
  }
  await context.output.object(
    { scope, written: !dryRun, files: files.map((file) => ({ ...file })), next },
    () =>
      dryRun
        ? files.map(({ path: file, content }) => `# ${file}\n${content}`).join('\n')
        : [
            ...files.map(({ path: file }) => `Wrote ${file}`),
            '',
            ...accessLines(access),
            'Now:',
            ...next.map((line) => `  ${line}`),
          ].join('\n'),
  );
  return EXIT.done;
}

function written(file: string, content: string): void {
  try {
    makeFolders(path.dirname(file), 0o777);
    putFile(file, content);
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw serviceUnitsError('service-units-unwritable', { file, reason }, error);
  }
}

/** The settings of the configuration that the unit will use; null where there is none yet. */
function settingsFor({ surroundings, globals }: CommandContext): Settings | null {
  const found = locateConfig(globals.config, surroundings);
  if (found !== undefined && isPiped(found)) {
    throw usageError('usage-invalid', {
      command: 'service install',
      problem: `${found} is a pipe: a unit reads its configuration at each start, from a file.`,
    });
  }
  return found === undefined ? null : loadConfig(found).settings;
}

function factsFor(
  context: CommandContext,
  scope: InstallCommand['scope'],
  settings: Settings | null,
): UnitFacts {
  const xdg = configHome(context.surroundings.env);
  return {
    scope,
    program: [process.execPath, realpathSync(process.argv[1] ?? '')],
    config:
      settings?.file ?? path.join(scope === 'system' ? '/etc' : xdg, 'mailkeep', 'config.json'),
    dataDir: dataDirOf(context, scope, settings),
    credentials: settings === null ? ['token'] : credentialsOf(settings),
  };
}

function filesFor(
  { surroundings }: CommandContext,
  scope: InstallCommand['scope'],
  facts: UnitFacts,
): UnitFile[] {
  const xdg = configHome(surroundings.env);
  const folder = scope === 'system' ? '/etc/systemd/system' : path.join(xdg, 'systemd/user');
  return [
    ...unitFiles(facts).map((file) => ({ ...file, path: path.join(folder, file.path) })),
    ...(scope === 'system' ? systemFiles() : []),
  ];
}

function configHome(env: CommandContext['surroundings']['env']): string {
  const xdg = env.XDG_CONFIG_HOME;
  return xdg !== undefined && path.isAbsolute(xdg)
    ? xdg
    : path.join(env.HOME ?? homedir(), '.config');
}

/** Nobody wants an archive below /etc, where `./data` next to the system's configuration would be. */
function dataDirOf(
  { globals, surroundings }: CommandContext,
  scope: InstallCommand['scope'],
  settings: Settings | null,
): string {
  if (globals.data !== undefined) return path.resolve(surroundings.cwd, globals.data);
  if (scope === 'system' && (settings === null || settings.dataDir.startsWith(`${ETC}/`))) {
    return STATE_DIRECTORY;
  }
  return (
    settings?.dataDir ?? path.join(surroundings.env.HOME ?? homedir(), '.local/share/mailkeep')
  );
}

function credentialsOf({ accounts }: Settings): string[] {
  const sources = accounts.flatMap(({ token, platform }) =>
    platform === null ? [token] : [token, platform.token],
  );
  return [...new Set(sources.flatMap(({ kind, name }) => (kind === 'credential' ? [name] : [])))];
}

function differs(file: string, content: string): boolean {
  return existsSync(file) && readFileSync(file, 'utf8') !== content;
}

/** What the user of the unit cannot use of all that the unit names. */
function accessOf({ program, config, dataDir }: UnitFacts, settings: Settings | null): NoAccess[] {
  const tokens = (settings?.accounts ?? [])
    .flatMap(({ token, platform }) => (platform === null ? [token] : [token, platform.token]))
    .flatMap(({ kind, name }) => (kind === 'file' ? [name] : []));
  const read = [...program, config, ...new Set(tokens)].map((file) => {
    return { path: file, need: 'read' as const };
  });
  return withoutAccess(USER, [...read, { path: dataDir, need: 'write' }]);
}

function accessLines(access: readonly NoAccess[]): string[] {
  const lines = access.map(({ path: file, need, at, commands }) => {
    const verb = need === 'read' ? 'read' : 'write to';
    const why =
      commands.length > 0
        ? `no access to ${at}; the commands below give it`
        : 'a service reaches nothing there: move it, for example to /etc/mailkeep, /var/lib/mailkeep or /opt';
    return `  ${terminalLine(file)}: ${why} (the unit must ${verb} it)`;
  });
  return lines.length === 0
    ? []
    : [`The user ${USER} of the unit cannot use all that the unit names:`, ...lines, ''];
}

function nextSteps({ scope, config, dataDir }: UnitFacts, access: readonly NoAccess[]): string[] {
  // What is moved changes the unit.
  const isToMove = access.some(({ commands }) => commands.length === 0);
  if (isToMove) return ['mailkeep service install --system # once everything is in its new place'];
  return scope === 'system'
    ? [
        'systemd-sysusers && systemd-tmpfiles --create',
        ...access.flatMap(({ commands }) => commands),
        'systemctl daemon-reload',
        'systemctl enable --now mailkeep.service        # or mailkeep-sync.timer',
        'journalctl -u mailkeep -f',
        `sudo -u ${USER} mailkeep status --config ${config} --data ${dataDir}`,
      ]
    : [
        'systemctl --user daemon-reload',
        'systemctl --user enable --now mailkeep.service # or mailkeep-sync.timer',
        'loginctl enable-linger                         # to run while you are not logged in',
      ];
}
