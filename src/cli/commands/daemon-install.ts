import {
  existsSync,
  readFileSync,
  realpathSync,
  renameSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { loadConfig } from '../../core/config.ts';
import { isPiped } from '../../core/config-file.ts';
import { configHome, locateConfig } from '../../core/config-locate.ts';
import { type Settings, tokenSources } from '../../core/config-schema.ts';
import { errnoOf } from '../../core/errors.ts';
import { makeFolders, syncFolder } from '../../core/files.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { type CommandContext, type Flags, invalidUsage } from '../context.ts';
import { serviceUnitsError } from '../errors.ts';

type Need = 'read' | 'write';

/** Folders that are unusable for a service: root's home is private, and each unit has its own /tmp. */
const PRIVATE = ['/root', '/tmp', '/var/tmp'];
const CACHE_DIRECTORY = '/var/cache/mailkeep';
/** Paths to which systemd-tmpfiles and the unit grant access. */
const MANAGED = [
  '/etc/mailkeep',
  '/etc/mailkeep/config.json',
  '/var/lib/mailkeep',
  CACHE_DIRECTORY,
];

type Account = ReturnType<typeof accountOf>;

/**
 * Returns the paths that a user cannot access, checking permissions on every parent folder. For a missing path, checks
 * the nearest existing parent. `at` is the obstacle: the path or a parent. `commands` would grant access; if empty, the
 * path has to move.
 */
function withoutAccess(
  user: string,
  paths: readonly { readonly path: string; readonly need: Need }[],
) {
  const account = accountOf(user);
  return paths.flatMap(({ path: file, need }) => {
    const isPrivate = PRIVATE.some((folder) => file.startsWith(`${folder}/`));
    if (isPrivate) return [{ path: file, need, at: file, commands: [] }];
    const at = obstacle(file, need, account);
    if (at === null) return [];
    return [{ path: file, need, at, commands: remedies(file, need, at, user) }];
  });
}

function obstacle(file: string, need: Need, account: Account): string | null {
  const parts = file.split('/').filter((part) => part !== '');
  let folder = '/';
  for (const part of parts) {
    if (MANAGED.includes(file)) return null;
    if (!MANAGED.includes(folder) && !may(statOf(folder), 1, account)) return folder;
    const next = path.join(folder, part);
    if (statOf(next) === undefined)
      return need === 'write' && may(statOf(folder), 2, account) ? null : folder;
    folder = next;
  }
  const stat = statOf(file);
  return may(stat, need === 'write' ? 2 : 4, account) ? null : file;
}

/** @param bit 4 to read, 2 to write, 1 to traverse */
function may(stat: Stats | undefined, bit: number, { uid, gids }: Account): boolean {
  if (stat === undefined) return false;
  if (stat.uid === uid) return (stat.mode & (bit << 6)) !== 0;
  if (gids.includes(stat.gid)) return (stat.mode & (bit << 3)) !== 0;
  return (stat.mode & bit) !== 0;
}

function statOf(file: string): Stats | undefined {
  try {
    return statSync(file);
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === 'ENOENT' || reason === 'ENOTDIR') return undefined;
    throw error;
  }
}

function remedies(file: string, need: Need, at: string, user: string): string[] {
  if (at !== file && statOf(file) !== undefined) return [`chmod o+x ${at}`];
  if (need === 'write')
    return [`install -d -o ${user} -g ${user} -m 700 ${file}`, `chown -R ${user}: ${file}`];
  return [`chgrp ${user} ${file}`, `chmod 640 ${file}`];
}

function accountOf(user: string) {
  const line = linesOf('/etc/passwd').find((one) => one.startsWith(`${user}:`));
  const [, , uid, gid] = line?.split(':') ?? [];
  const groups = linesOf('/etc/group').flatMap((one) => {
    const [, , id, members = ''] = one.split(':');
    return members.split(',').includes(user) ? [Number(id)] : [];
  });
  return {
    uid: uid === undefined ? null : Number(uid),
    gids: gid === undefined ? groups : [Number(gid), ...groups],
  };
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/**
 * Quotes one word of a unit's command line (systemd.syntax(7), systemd.service(5)), escaping `%` and `$`.
 * @throws service-units-path for control characters, because a line break would start a new directive
 */
export function quoteUnitWord(word: string): string {
  return inQuotes(literal(word).replaceAll('$', '$$$$'));
}

/**
 * Quotes a path for directives such as `ReadWritePaths=`, in which systemd expands `%` but not `$`.
 * @throws service-units-path
 */
export function quoteUnitPath(file: string): string {
  return inQuotes(literal(file));
}

function literal(word: string): string {
  if (/\p{Cc}/u.test(word)) throw serviceUnitsError('service-units-path', { path: word });
  return word.replaceAll('%', '%%');
}

function inQuotes(literal: string): string {
  if (/^[\w@%+=:,./$-]+$/.test(literal)) return literal;
  return `"${literal.replace(/["\\]/g, '\\$&')}"`;
}

/** Inputs for an installation's units. Paths are absolute. */
interface UnitFacts {
  readonly scope: 'system' | 'user';
  /** The program's command, without arguments. */
  readonly program: readonly string[];
  readonly config: string;
  readonly dataDir: string;
  /** Names of the systemd credentials that hold the configuration's tokens. */
  readonly credentials: readonly string[];
}

export interface UnitFile {
  /** Relative to the unit folder of the scope, or to / for other files. */
  readonly path: string;
  readonly content: string;
}

/** The system service's archive. systemd creates the folder for the service's user. */
export const STATE_DIRECTORY = '/var/lib/mailkeep';
const USER = 'mailkeep';

/** Returns a daemon service, and a timer for single syncs. The user enables one of them. */
export function unitFiles(facts: UnitFacts): UnitFile[] {
  return [
    { path: 'mailkeep.service', content: daemonUnit(facts) },
    { path: 'mailkeep-sync.service', content: syncUnit(facts) },
    { path: 'mailkeep-sync.timer', content: timerUnit() },
  ];
}

export function systemFiles(): UnitFile[] {
  return [
    {
      path: '/etc/sysusers.d/mailkeep.conf',
      content: `u ${USER} - "Mirror of mailboxes" ${STATE_DIRECTORY}\n`,
    },
    {
      path: '/etc/tmpfiles.d/mailkeep.conf',
      content: [
        '# The user of the unit reads the configuration; only systemd reads tokens and passes them on (LoadCredential).',
        `d /etc/mailkeep 0750 root ${USER} -`,
        `z /etc/mailkeep/config.json 0640 root ${USER} -`,
        `d ${STATE_DIRECTORY} 0700 ${USER} ${USER} -`,
        '',
      ].join('\n'),
    },
  ];
}

function daemonUnit(facts: UnitFacts): string {
  return unit([
    section('Unit', [
      'Description=Mirror of mailboxes',
      ...network(facts),
      // Temporary problems such as a full disk or a running rebuild can last for hours.
      'StartLimitIntervalSec=0',
    ]),
    section('Service', [
      'Type=notify',
      // systemd-notify, a child of the daemon, sends the messages.
      'NotifyAccess=all',
      `ExecStart=${commandLine(facts, 'daemon')}`,
      'ExecReload=/bin/kill -HUP $MAINPID',
      'Restart=on-failure',
      'RestartSec=30s',
      // Exit codes 2 (invalid configuration) and 3 (damage) need the user's attention.
      'RestartPreventExitStatus=2 3',
      'WatchdogSec=3min',
      // After a crash, opening an archive reads its last segment.
      'TimeoutStartSec=10min',
      'TimeoutStopSec=20s',
      'KillMode=mixed',
      ...common(facts),
    ]),
    section('Install', [`WantedBy=${facts.scope === 'user' ? 'default' : 'multi-user'}.target`]),
  ]);
}

function syncUnit(facts: UnitFacts): string {
  return unit([
    section('Unit', [
      'Description=One sync of mailboxes',
      ...network(facts),
      'Conflicts=mailkeep.service',
    ]),
    section('Service', [
      'Type=oneshot',
      `ExecStart=${commandLine(facts, 'sync --quiet')}`,
      // A first sync can take a day.
      'TimeoutStartSec=infinity',
      'TimeoutStopSec=20s',
      ...common(facts),
    ]),
  ]);
}

function timerUnit(): string {
  return unit([
    section('Unit', ['Description=Sync mailboxes every quarter of an hour']),
    section('Timer', [
      'OnCalendar=*:0/15',
      'RandomizedDelaySec=60s',
      // After downtime, runs once to catch up.
      'Persistent=true',
    ]),
    section('Install', ['WantedBy=timers.target']),
  ]);
}

function network({ scope }: UnitFacts): string[] {
  // User service managers have no network targets.
  return scope === 'user' ? [] : ['After=network-online.target', 'Wants=network-online.target'];
}

function commandLine({ program, config, dataDir }: UnitFacts, command: string): string {
  const words = [...program.map(quoteUnitWord), command];
  return [...words, '--config', quoteUnitWord(config), '--data', quoteUnitWord(dataDir)].join(' ');
}

function common(facts: UnitFacts): string[] {
  return [
    'Nice=10',
    'UMask=0077',
    ...Object.entries(MALLOC_SETTINGS).map(([name, value]) => `Environment=${name}=${value}`),
    ...(facts.scope === 'user' ? USER_HARDENING : systemSettings(facts)),
    ...facts.credentials.map(
      (name) =>
        `LoadCredential=${name}:${facts.scope === 'user' ? '%h/.config/mailkeep' : '/etc/mailkeep'}/${name}`,
    ),
  ];
}

/**
 * Settings for glibc's malloc. By default, each thread has an arena that retains freed memory, including that of large
 * buffers. See docs/performance.md for measurements.
 */
export const MALLOC_SETTINGS: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_MMAP_THRESHOLD_: '131072',
};

/** All restrictions that need no privileges. */
const USER_HARDENING = [
  'NoNewPrivileges=yes',
  'LockPersonality=yes',
  'RestrictRealtime=yes',
  'RestrictSUIDSGID=yes',
  'RestrictNamespaces=yes',
  'RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX',
  'SystemCallArchitectures=native',
  'SystemCallFilter=@system-service',
  'SystemCallFilter=~@privileged @resources',
  'SystemCallErrorNumber=EPERM',
];

function systemSettings({ program, config, dataDir }: UnitFacts): string[] {
  const inHomes = [...program, config, dataDir].some((file) => /^\/(home|root)\//.test(file));
  return [
    `User=${USER}`,
    `Group=${USER}`,
    ...writableFolder(dataDir),
    ...USER_HARDENING,
    'CapabilityBoundingSet=',
    'AmbientCapabilities=',
    'ProtectSystem=strict',
    // The service's own folders must remain visible.
    `ProtectHome=${inHomes ? 'read-only' : 'yes'}`,
    'PrivateTmp=yes',
    'PrivateDevices=yes',
    'PrivateUsers=yes',
    'PrivateMounts=yes',
    'DevicePolicy=closed',
    'ProtectHostname=yes',
    'ProtectClock=yes',
    'ProtectKernelTunables=yes',
    'ProtectKernelModules=yes',
    'ProtectKernelLogs=yes',
    'ProtectControlGroups=yes',
    'ProtectProc=invisible',
    'ProcSubset=pid',
    'KeyringMode=private',
    'RemoveIPC=yes',
    // MemoryDenyWriteExecute is omitted, because the JavaScript engine compiles code at run time.
  ];
}

/** Returns settings that make a folder writable. systemd creates two of its folders for the service's user. */
function writableFolder(folder: string): string[] {
  if (folder === STATE_DIRECTORY) return ['StateDirectory=mailkeep', 'StateDirectoryMode=0700'];
  if (folder === CACHE_DIRECTORY) return ['CacheDirectory=mailkeep', 'CacheDirectoryMode=0700'];
  return [`ReadWritePaths=${quoteUnitPath(folder)}`];
}

function section(name: string, lines: readonly string[]): string {
  return [`[${name}]`, ...lines, ''].join('\n');
}

function unit(sections: readonly string[]): string {
  return sections.join('\n');
}

type InstallLine = Flags<'user' | 'system' | 'dryRun' | 'force'> & { readonly root: string };

export function installUnits(
  context: CommandContext,
  { user = false, system, dryRun = false, force = false, root }: InstallLine,
): Promise<void> {
  const isSystem = system ?? (process.getuid?.() === 0 && !user);
  return installService(context, { scope: isSystem ? 'system' : 'user', dryRun, force, root });
}

/** Atomically and durably replaces a file. Units contain no secrets, so everyone may read them. */
function putFile(file: string, content: string): void {
  const temporary = `${file}.${process.pid}.tmp`;
  writeFileSync(temporary, content, { mode: 0o644, flag: 'wx', flush: true });
  renameSync(temporary, file);
  syncFolder(path.dirname(file));
}

interface InstallCommand extends Required<Omit<InstallLine, 'user' | 'system'>> {
  readonly scope: 'system' | 'user';
}

const ETC = '/etc/mailkeep';

async function installService(
  context: CommandContext,
  { scope, dryRun, force, root }: InstallCommand,
): Promise<void> {
  const settings = settingsFor(context);
  const facts = factsFor(context, scope, settings);
  const files = filesFor(context, scope, facts).map(({ path: file, content }) => ({
    path: path.join(root, file),
    content,
  }));
  const kept = files.filter(
    ({ path: file, content }) => existsSync(file) && readFileSync(file, 'utf8') !== content,
  );
  if (kept.length > 0 && !force && !dryRun) {
    throw serviceUnitsError('service-units-differ', { files: kept.map(({ path: file }) => file) });
  }
  const access = scope === 'system' && root === '/' ? accessOf(facts, settings) : [];
  const next = nextSteps(facts, access);
  if (!dryRun) {
    for (const { path: file, content } of files) writeUnit(file, content);
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
}

function writeUnit(file: string, content: string): void {
  try {
    makeFolders(path.dirname(file), 0o777);
    putFile(file, content);
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    throw serviceUnitsError('service-units-unwritable', { file, reason }, error);
  }
}

function settingsFor({ environment, globals }: CommandContext): Settings | null {
  const found = locateConfig(globals.config, environment);
  if (found !== undefined && isPiped(found)) {
    throw invalidUsage(
      'daemon install',
      `${found} is a pipe: a unit reads its configuration at each start, from a file.`,
    );
  }
  return found === undefined ? null : loadConfig(found).settings;
}

function factsFor(
  context: CommandContext,
  scope: InstallCommand['scope'],
  settings: Settings | null,
): UnitFacts {
  const xdg = configHome(context.environment.env);
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
  { environment }: CommandContext,
  scope: InstallCommand['scope'],
  facts: UnitFacts,
): UnitFile[] {
  const xdg = configHome(environment.env);
  const folder = scope === 'system' ? '/etc/systemd/system' : path.join(xdg, 'systemd/user');
  return [
    ...unitFiles(facts).map((file) => ({ ...file, path: path.join(folder, file.path) })),
    ...(scope === 'system' ? systemFiles() : []),
  ];
}

/** Returns the archive's folder. In the system-wide configuration, the default `./data` would be under /etc. */
function dataDirOf(
  { globals, environment }: CommandContext,
  scope: InstallCommand['scope'],
  settings: Settings | null,
): string {
  if (globals.data !== undefined) return path.resolve(environment.cwd, globals.data);
  if (scope === 'system' && (settings === null || settings.dataDir.startsWith(`${ETC}/`))) {
    return STATE_DIRECTORY;
  }
  return settings?.dataDir ?? path.join(environment.env.HOME ?? homedir(), '.local/share/mailkeep');
}

function credentialsOf({ accounts }: Settings): string[] {
  const sources = tokenSources(accounts);
  return [...new Set(sources.flatMap(({ kind, name }) => (kind === 'credential' ? name : [])))];
}

type NoAccess = ReturnType<typeof withoutAccess>[number];

function accessOf({ program, config, dataDir }: UnitFacts, settings: Settings | null): NoAccess[] {
  const sources = tokenSources(settings?.accounts ?? []);
  const tokens = new Set(sources.flatMap(({ kind, name }) => (kind === 'file' ? name : [])));
  const files = [...program, config, ...tokens].map((file) => {
    return { path: file, need: 'read' as const };
  });
  return withoutAccess(USER, [...files, { path: dataDir, need: 'write' }]);
}

function accessLines(access: readonly NoAccess[]): string[] {
  const lines = access.map(({ path: file, need, at, commands }) => {
    const verb = need === 'read' ? 'read' : 'write to';
    const reason =
      commands.length > 0
        ? `no access to ${at}; the commands below give it`
        : 'a service reaches nothing there: move it, for example to /etc/mailkeep, /var/lib/mailkeep or /opt';
    return `  ${terminalLine(file)}: ${reason} (the unit must ${verb} it)`;
  });
  return lines.length === 0
    ? []
    : [`The user ${USER} of the unit cannot use all that the unit names:`, ...lines, ''];
}

function nextSteps({ scope, config, dataDir }: UnitFacts, access: readonly NoAccess[]): string[] {
  // The unit has to be recreated once the files have been moved.
  const isToMove = access.some(({ commands }) => commands.length === 0);
  if (isToMove) return ['mailkeep daemon install --system # once everything is in its new place'];
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
