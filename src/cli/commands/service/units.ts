import { serviceUnitsError } from '../../../errors/small-families.ts';

/**
 * A word of a command line in a unit (systemd.syntax(7), systemd.service(5)): quoted where it must be, with `%` and `$`
 * doubled, which systemd would replace.
 *
 * @throws service-units-path for a word with a control character: a new line would begin a directive
 */
export function quoted(word: string): string {
  return inQuotes(literal(word).replaceAll('$', '$$$$'));
}

/**
 * A path as the value of a directive that takes paths (`ReadWritePaths=`): systemd replaces `%` in it, and takes `$` as
 * it stands.
 *
 * @throws service-units-path
 */
export function quotedPath(file: string): string {
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

/** What the units of one installation are made from. Paths are absolute. */
export interface UnitFacts {
  readonly scope: 'system' | 'user';
  /** The command that starts the program, its own arguments apart. */
  readonly program: readonly string[];
  readonly config: string;
  readonly dataDir: string;
  /** Names of systemd credentials that the configuration takes tokens from. */
  readonly credentials: readonly string[];
}

export interface UnitFile {
  /** Below the folder of the scope's units, or below / for other files. */
  readonly path: string;
  readonly content: string;
}

/** Where the system's worker of a fleet keeps its copies. */
export const CACHE_DIRECTORY = '/var/cache/mailkeep';
/** Where the system's service keeps the archive: systemd makes the folder, and gives it to the service's user. */
export const STATE_DIRECTORY = '/var/lib/mailkeep';
export const USER = 'mailkeep';

/** The daemon as a service, and one sync from a timer: whoever installs both enables one of them. */
export function unitFiles(facts: UnitFacts): UnitFile[] {
  return [
    { path: 'mailkeep.service', content: daemonUnit(facts) },
    { path: 'mailkeep-sync.service', content: syncUnit(facts) },
    { path: 'mailkeep-sync.timer', content: timerUnit() },
  ];
}

/** What a worker's unit is made from: its other paths are in the configuration. */
export interface WorkerFacts extends Pick<UnitFacts, 'program' | 'config'> {
  /** The folder with local copies of archives: `cache` of the configuration. */
  readonly cache: string;
}

/** The worker of a node of a fleet, as a service of the system. */
export function workerUnit({ program, config, cache }: WorkerFacts): string {
  const facts: UnitFacts = { scope: 'system', program, config, dataDir: cache, credentials: [] };
  const command = [...program.map(quoted), 'fleet worker --config', quoted(config)].join(' ');
  return unit([
    section('Unit', [
      'Description=Worker of a mailkeep fleet',
      ...network(facts),
      // While registry and store cannot be reached, it is started again: others have the archives meanwhile.
      'StartLimitIntervalSec=0',
    ]),
    section('Service', [
      'Type=exec',
      `ExecStart=${command}`,
      'Restart=on-failure',
      'RestartSec=10s',
      // 2 is a wrong configuration: a person has to look.
      'RestartPreventExitStatus=2',
      // It closes its archives and gives them back; what is cut off is taken over all the same.
      'TimeoutStopSec=2min',
      'KillMode=mixed',
      // Keys of the store, and the password of the registry. The file of keys is read again when keys are rotated, so it is
      // no credential, of which systemd makes a copy.
      'EnvironmentFile=-/etc/mailkeep/fleet.env',
      // Some ten files an archive.
      'LimitNOFILE=65536',
      ...common(facts),
    ]),
    section('Install', ['WantedBy=multi-user.target']),
  ]);
}

/** The user that the system's service runs as, and the folder of its configuration. */
export function systemFiles(): UnitFile[] {
  return [
    {
      path: '/etc/sysusers.d/mailkeep.conf',
      content: `u ${USER} - "Mirror of hosted mailboxes" ${STATE_DIRECTORY}\n`,
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
      'Description=Mirror of hosted mailboxes',
      ...network(facts),
      // What mends itself (a full disk, a rebuild that has the archive) may take hours: it is tried until then.
      'StartLimitIntervalSec=0',
    ]),
    section('Service', [
      'Type=notify',
      // It is systemd-notify that speaks, a child of the daemon.
      'NotifyAccess=all',
      `ExecStart=${commandLine(facts, 'daemon')}`,
      'ExecReload=/bin/kill -HUP $MAINPID',
      'Restart=on-failure',
      'RestartSec=30s',
      // 2 is a wrong configuration, 3 is damage: a person has to look.
      'RestartPreventExitStatus=2 3',
      'WatchdogSec=3min',
      // Opening an archive after a crash reads its last segment.
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
      'Description=One sync of hosted mailboxes',
      ...network(facts),
      'Conflicts=mailkeep.service',
    ]),
    section('Service', [
      'Type=oneshot',
      `ExecStart=${commandLine(facts, 'sync --quiet')}`,
      // A first sync may take a day.
      'TimeoutStartSec=infinity',
      'TimeoutStopSec=20s',
      ...common(facts),
    ]),
  ]);
}

function timerUnit(): string {
  return unit([
    section('Unit', ['Description=Sync hosted mailboxes every quarter of an hour']),
    section('Timer', [
      'OnCalendar=*:0/15',
      'RandomizedDelaySec=60s',
      // What was missed while the machine was off is made up for once.
      'Persistent=true',
    ]),
    section('Install', ['WantedBy=timers.target']),
  ]);
}

function network({ scope }: UnitFacts): string[] {
  // The user's manager knows no network targets.
  return scope === 'user' ? [] : ['After=network-online.target', 'Wants=network-online.target'];
}

function commandLine({ program, config, dataDir }: UnitFacts, command: string): string {
  const words = [...program.map(quoted), command];
  return [...words, '--config', quoted(config), '--data', quoted(dataDir)].join(' ');
}

function common(facts: UnitFacts): string[] {
  return [
    'Nice=10',
    'UMask=0077',
    ...Object.entries(ALLOCATION).map(([name, value]) => `Environment=${name}=${value}`),
    ...(facts.scope === 'user' ? USER_HARDENING : systemSettings(facts)),
    ...facts.credentials.map(
      (name) =>
        `LoadCredential=${name}:${facts.scope === 'user' ? '%h/.config/mailkeep' : '/etc/mailkeep'}/${name}`,
    ),
  ];
}

/**
 * How glibc allocates. By default, each thread has an arena that keeps what was freed, and once a large buffer was freed,
 * others of its size stay in an arena too. docs/performance.md has what that takes.
 */
export const ALLOCATION: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_MMAP_THRESHOLD_: '131072',
};

/** Every restriction that needs no privilege of the manager. */
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
    // What the service itself needs must not be hidden from it.
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
    // Not MemoryDenyWriteExecute: the JavaScript engine compiles code while it runs.
  ];
}

/** systemd makes the usual folders, and gives them to the service's user. */
function writableFolder(folder: string): string[] {
  if (folder === STATE_DIRECTORY) return ['StateDirectory=mailkeep', 'StateDirectoryMode=0700'];
  if (folder === CACHE_DIRECTORY) return ['CacheDirectory=mailkeep', 'CacheDirectoryMode=0700'];
  return [`ReadWritePaths=${quotedPath(folder)}`];
}

function section(name: string, lines: readonly string[]): string {
  return [`[${name}]`, ...lines, ''].join('\n');
}

function unit(sections: readonly string[]): string {
  return sections.join('\n');
}
