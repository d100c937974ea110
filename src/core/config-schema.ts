import path from 'node:path';
import cron from 'node-cron';
import { z } from 'zod';
import { isImapHost, isLoopback, parseListen, parseServiceUrl, withScheme } from './address.ts';
import { type ConfigProblem, configFolder, configInvalid, valueAt } from './config-file.ts';
import { MailkeepError } from './errors.ts';
import { nearest } from './names.ts';
import {
  DEFAULT_REQUESTS_PER_MINUTE,
  DURATION_PATTERN,
  MAX_REQUESTS_PER_MINUTE,
  parseDuration,
  parseRate,
  readSize,
} from './quantities.ts';
import { type ParsedTarget, parseTarget, pathProblem, targetLabel } from './s3-target.ts';
import { Secret } from './secrets.ts';

/** The source of validation, defaults and editors' JSON Schema. Errors print `expected` as the expected value. */
declare module 'zod' {
  interface GlobalMeta {
    expected?: string;
  }
}

/** Accepts five fields, or six with seconds first. Rejects `@daily`, which is specific to node-cron. */
function isCron(text: string): boolean {
  const fields = text.trim().split(/\s+/).length;
  return (fields === 5 || fields === 6) && cron.validate(text);
}

function checked(description: string, expected: string, test: (text: string) => boolean) {
  return z.string().refine(test, { error: expected }).meta({ description, expected });
}

const duration = (description: string) =>
  z
    .string()
    .regex(DURATION_PATTERN)
    .meta({ description, expected: 'a duration such as 90s, 15m, 26h or 7d' });

const cronField = (description: string) =>
  checked(description, 'a cron expression of 5 fields, or 6 with seconds', isCron);

/** Builds a section of the config file. Its errors list all of the section's fields. */
function section<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const names = Object.keys(shape);
  const last = names.pop() ?? '';
  const text = names.length > 0 ? `${names.join(', ')} and ${last}` : last;
  return z.strictObject(shape).meta({ expected: `an object with ${text}` });
}

const wholeNumber = (from: number, to: number, description: string) =>
  z
    .int()
    .min(from)
    .max(to)
    .meta({ description, expected: `a whole number from ${from} to ${to}` });

const optIn = (description: string) =>
  z.boolean().default(false).meta({ description, expected: 'true or false' });

const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/)
  .meta({ expected: 'the name of an environment variable' });

const ELSEWHERE = [
  z.strictObject({ env: variableName }),
  z.strictObject({ file: z.string().min(1) }),
  z.strictObject({ credential: z.string().regex(/^[A-Za-z0-9_.-]+$/) }),
] as const;

/** Anything shorter would copy continuously. */
const MIN_MS = 60_000;
const MAX_KEPT = 10_000;
const MAX_LOCK_DAYS = 36_500;
const MAX_SAMPLED = 1_000_000;

const INTERVAL = 'a duration of at least 1m, such as 15m, 6h or 7d';

function isInterval(text: string): boolean {
  return (parseDuration(text) ?? 0) >= MIN_MS;
}

function isShare(text: string): boolean {
  const match = /^(\d{1,3}(?:\.\d{1,6})?)%$/.exec(text);
  return match !== null && Number(match[1]) > 0 && Number(match[1]) <= 100;
}

const sample = z
  .union([z.int().min(1).max(MAX_SAMPLED), z.string().refine(isShare)])
  .nullable()
  .meta({
    description:
      'How much is read back after each copy: a number of segments, or a share such as 1%; null reads nothing',
    expected: 'a whole number from 1 to 1000000, a share such as "1%", or null',
  });

const full = checked(
  'When everything is read back: an interval such as 30d, or a cron expression; null never does',
  `${INTERVAL}, a cron expression, or null`,
  (text) => isInterval(text) || isCron(text),
)
  .nullable()
  .meta({ expected: `${INTERVAL}, a cron expression, or null` });

const copiesSchema = z
  .array(
    section({
      to: checked(
        'Where the copy is: s3://BUCKET/PREFIX, or a folder, relative to this file',
        '"s3://BUCKET/PREFIX", or the path of a folder',
        (text) => readTarget(text) !== undefined,
      ),
      every: checked(
        'Copy when this long has passed since the last copy and something is new',
        INTERVAL,
        isInterval,
      ).optional(),
      schedule: cronField('Copy at these times instead, in schedule.timezone').optional(),
      encrypt: optIn('Make no readable copy: fail where a folder has no encrypted one'),
      keep: wholeNumber(
        1,
        MAX_KEPT,
        'Of an encrypted copy: how many of its states to keep; all of the last day stay',
      ).default(1),
      lockDays: wholeNumber(
        1,
        MAX_LOCK_DAYS,
        'In S3: for how many days nobody can delete what is copied; null for no lock',
      )
        .nullable()
        .default(null)
        .meta({ expected: `a whole number from 1 to ${MAX_LOCK_DAYS}, or null` }),
      limitRate: checked(
        'Of an encrypted copy: most bytes a second, such as 500k or 2M; null for no limit',
        'a number of bytes a second such as "500k" or "2M", or null',
        (text) => parseRate(text) !== undefined,
      )
        .nullable()
        .default(null)
        .meta({ expected: 'a number of bytes a second such as "500k" or "2M", or null' }),
      verify: section({ sample: sample.default(null), full: full.default(null) }).prefault({}),
    }),
  )
  .default([])
  .meta({
    description: 'Copies that the daemon keeps up to date; none by default',
    expected:
      'a list of objects with to, every or schedule, encrypt, keep, lockDays, limitRate and verify',
  });

export type Schedule = { readonly everyMs: number } | { readonly cron: string };

function copySettings(copies: z.output<typeof copiesSchema>, folder: string) {
  return copies.map(({ to, every, schedule, verify, ...rest }) => ({
    ...rest,
    /** `s3://BUCKET/PREFIX`, or the absolute path of a directory, as written on the command line. */
    to: canonicalTarget(to, folder) ?? to,
    rhythm: parseSchedule(schedule ?? every ?? ''),
    /** As accepted by `verify --sample`; null disables sampling. */
    sample: verify.sample === null ? null : String(verify.sample),
    full: verify.full === null ? null : parseSchedule(verify.full),
  }));
}

export type CopySettings = Readonly<ReturnType<typeof copySettings>[number]>;

/** Returns the canonical spelling of a target, or undefined if it is invalid. */
export function canonicalTarget(text: string, folder: string): string | undefined {
  const target = readTarget(text);
  if (target === undefined) return undefined;
  return target.kind === 's3' ? targetLabel(target) : path.resolve(folder, target.path);
}

function readTarget(text: string): ParsedTarget | undefined {
  try {
    return parseTarget(text);
  } catch (error) {
    if (error instanceof MailkeepError) return undefined;
    throw error;
  }
}

function parseSchedule(text: string): Schedule {
  const everyMs = parseDuration(text);
  return everyMs === undefined ? { cron: text } : { everyMs };
}

const MAX_ARCHIVES = 100_000;

const NODE = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

/** A simple check. The registry's parser reports different errors, and local commands must not load it. */
const postgresUrl = z
  .string()
  .refine((text) => /^postgres(?:ql)?:\/\//i.test(text) && URL.canParse(text));
const registryAddress = z.union([postgresUrl, ...ELSEWHERE]);
const REGISTRY_ADDRESS =
  'an address such as "postgresql://mailkeep@db.example.org/fleet", or {"env": NAME}, {"file": PATH} or {"credential": NAME}';

export const fleetSchema = section({
  registry: registryAddress.meta({
    description:
      'The database of the fleet in PostgreSQL, postgresql://USER@HOST:PORT/DATABASE, or where to read this address. A password is better kept out of it: in PGPASSWORD or .pgpass',
    expected: REGISTRY_ADDRESS,
  }),
  directRegistry: registryAddress.optional().meta({
    description:
      'The same database without a pooler such as PgBouncer, for leases and notifications; fleet.registry by default',
    expected: REGISTRY_ADDRESS,
  }),
  store: section({
    bucket: checked('The bucket', 'the name of a bucket', (text) => isTarget(text, '')),
    prefix: checked(
      'Prefix of all names of the fleet in the bucket',
      'letters, digits and -_./, without a slash at the ends',
      (text) => text === '' || isTarget('bucket', text),
    ).default(''),
    endpoint: checked(
      'The S3 server; without it, AWS_ENDPOINT_URL or Amazon',
      'an https address (http only for this machine) without user name, password, query or fragment',
      isEndpoint,
    ).optional(),
    region: checked(
      'The region of the bucket; without it, AWS_REGION',
      'the name of a region such as "eu-central-1"',
      (text) => /^[A-Za-z0-9-]{1,64}$/.test(text),
    ).optional(),
    profile: z.string().min(1).optional().meta({
      description:
        'The profile in ~/.aws with the keys; without it, AWS_ACCESS_KEY_ID or AWS_PROFILE',
      expected: 'the name of a profile',
    }),
  }),
  keyFile: z.string().min(1).meta({
    description:
      'File with the keys that encrypt the secrets in the registry and the mail in the bucket, relative to this file; the same on every node',
    expected: 'the path of a file',
  }),
  node: checked(
    'The name of this machine in the fleet; no other machine has it, and it stays the same as long as its disk does',
    'a name of 1 to 64 letters, digits, dots, dashes and underscores',
    (text) => NODE.test(text),
  ),
  address: checked(
    'Where other nodes reach this one, to read what it holds',
    'a host and port such as "node-1.example.org:8443"',
    isReachable,
  ).optional(),
  listen: checked(
    'Where the worker listens for other nodes, if not at `address`',
    'a host and port such as "0.0.0.0:8443"',
    (text) => (parseListen(text)?.port ?? 0) > 0,
  ).optional(),
  capacity: wholeNumber(1, MAX_ARCHIVES, 'How many accounts this node takes at most').default(
    1_000,
  ),
  cache: z.string().min(1).default('./cache').meta({
    description:
      'Folder for the shards of this node, relative to this file; what was not shipped yet is only there',
    expected: 'the path of a folder',
  }),
}).meta({
  description: 'A node of a fleet, for "mailkeep fleet" (docs/fleet.md); off when absent',
});

function isTarget(bucket: string, prefix: string): boolean {
  if (bucket.includes('/') || prefix.endsWith('/')) return false;
  try {
    return parseTarget(`s3://${bucket}/${prefix}`).kind === 's3';
  } catch (error) {
    if (error instanceof MailkeepError) return false;
    throw error;
  }
}

function isEndpoint(text: string): boolean {
  const url = parseServiceUrl(text);
  return url !== undefined && (url.protocol === 'https:' || isLoopback(url.hostname));
}

function isReachable(text: string): boolean {
  const parsed = parseListen(text);
  return parsed !== undefined && parsed.port > 0 && !text.startsWith(':');
}

function isTimeZone(text: string): boolean {
  try {
    return text === 'local' || new Intl.DateTimeFormat('en', { timeZone: text }) !== undefined;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

function isWebUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:/i.test(text);
}

const HOST_NAME = 'a host name without a port, such as "node-1.example.org"';
const HOST_NAME_PATTERN = /^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})$/;

/**
 * Reports whether an address is an https origin with no path. Links start at the root, so a reverse proxy must serve
 * the whole host.
 */
function isPublicOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, pathname, search, hash } = new URL(text);
  const extras = username + password + search + hash;
  return protocol === 'https:' && pathname === '/' && extras === '';
}

/** `fetch` rejects addresses that contain a user name. */
function isPostable(text: string): boolean {
  if (!isWebUrl(text)) return false;
  const { username, password } = new URL(text);
  return username === '' && password === '';
}

const serviceUrl = (description: string) =>
  checked(
    description,
    'an http or https address without user name, password, query or fragment',
    (text) => parseServiceUrl(text) !== undefined,
  );

const listen = (description: string) =>
  checked(
    description,
    'an address such as 127.0.0.1:8025 (port 0: any free one)',
    (text) => parseListen(text) !== undefined,
  );

const namePattern = z.string().min(1).meta({ expected: 'a name or a pattern with *' });

const patterns = (what: string, fallback: string[]) =>
  z
    .array(namePattern)
    .default(fallback)
    .meta({ description: what, expected: 'a list of names or patterns with *' });

const selection = (what: string) =>
  section({
    include: patterns(`${what} to mirror; * stands for any text`, ['*']),
    exclude: patterns(`${what} to leave out; what is already archived stays as it is`, []),
  }).prefault({});

const tokenSchema = z.union([z.string().min(1), ...ELSEWHERE]).meta({
  description:
    'The bearer token, or where to read it when a request needs it: an environment variable, a file, or a systemd credential',
  expected: 'a token, or {"env": NAME}, {"file": PATH} or {"credential": NAME}',
});

const passwordSchema = z
  .union([
    z.string().min(1),
    ...ELSEWHERE,
    z.strictObject({ command: z.array(z.string().min(1)).min(1) }),
  ])
  .meta({
    description:
      'The password, or where to read it when a connection needs it: an environment variable, a file, a systemd credential, or the first line that a command prints',
    expected:
      'a password, or {"env": NAME}, {"file": PATH}, {"credential": NAME} or {"command": [PROGRAM, ARGUMENT, …]}',
  });

/** A smaller limit would be spent on listing messages alone. */
const MIN_BYTES_PER_DAY = 1_000_000;

/** A number of bytes, or a size such as "5G". */
function sizeOrBytes(least: number) {
  return z.union([
    z.int().min(least).max(Number.MAX_SAFE_INTEGER),
    z.string().refine((text) => (readSize(text) ?? -1) >= least),
  ]);
}

function bytesIn(size: number | string): number {
  return typeof size === 'number' ? size : assertParsed('size', readSize(size));
}

/** Providers whose addresses and scopes are known. */
const OAUTH_PROVIDERS = {
  google: { scope: 'https://mail.google.com/', appScope: null },
  microsoft: {
    scope: 'https://outlook.office.com/IMAP.AccessAsUser.All offline_access',
    appScope: 'https://outlook.office365.com/.default',
  },
} as const;

const oauthSchema = z
  .strictObject({
    provider: z.enum(['google', 'microsoft']).optional().meta({
      description: 'A provider whose addresses and scopes are known',
      expected: '"google" or "microsoft"',
    }),
    issuer: checked(
      'In place of provider: the address of another authorization server',
      'an https address (http only for this machine) without user name, password, query or fragment',
      isEndpoint,
    ).optional(),
    tenant: checked(
      'With the provider microsoft: the id or domain of the tenant; without it, any account can sign in',
      'the id or domain of a tenant',
      (text) => /^[A-Za-z0-9.-]{1,128}$/.test(text),
    ).optional(),
    clientId: z.string().min(1).meta({
      description: 'The id of the client that you registered at the provider',
      expected: 'a client id',
    }),
    clientSecret: passwordSchema.optional().meta({
      description: 'Its secret, if it has one, from the same sources as a password',
    }),
    scope: z.string().min(1).optional().meta({
      description: 'The scopes to ask for, separated by blanks; needed with issuer',
      expected: 'scopes separated by blanks',
    }),
    appOnly: optIn(
      'Signs in as the application, without a person: for administrators who gave it IMAP.AccessAsApp',
    ),
  })
  .meta({ expected: 'an object with provider or issuer, and clientId' });

const IMAP_HOST = 'a host name or IP address without a port, such as "imap.example.org"';
const MAX_PORT = 65_535;
const MAX_CONNECTIONS = 16;

const imapSchema = z
  .strictObject({
    host: checked('The IMAP server', IMAP_HOST, isImapHost),
    port: wholeNumber(
      1,
      MAX_PORT,
      'Its port; 993 by default, or 143 without implicit TLS',
    ).optional(),
    tls: z.enum(['implicit', 'starttls', 'none']).default('implicit').meta({
      description: 'How the connection is encrypted; none is for servers on this machine only',
      expected: '"implicit", "starttls" or "none"',
    }),
    user: checked('The user to sign in', 'a user name', (text) => /^[^\0\r\n]{1,255}$/.test(text)),
    address: checked(
      'The address of the mailbox; the user by default',
      'an address such as "ada@example.org"',
      (text) => /^[^\s@]+@[^\s@]+$/.test(text),
    ).optional(),
    id: checked(
      'What identifies the mailbox in the archive; keep it when the server moves to another host. Made of host, port and user by default',
      '1 to 255 printable characters',
      (text) => /^[\x21-\x7e]{1,255}$/.test(text),
    ).optional(),
    password: passwordSchema.optional(),
    accessToken: passwordSchema.optional().meta({
      description:
        'Instead of a password: an OAuth access token, such as one that a command prints',
    }),
    oauth: oauthSchema.optional().meta({
      description: 'Instead of a password: OAuth, after "mailkeep account login NAME"',
    }),
    connections: wholeNumber(
      1,
      MAX_CONNECTIONS,
      'Connections at the same time; fewer are used if the server refuses them',
    ).default(2),
    maxBytesPerDay: sizeOrBytes(MIN_BYTES_PER_DAY).nullable().optional().meta({
      description:
        'Bytes to exchange with the server in 24 hours, over all sync runs; null for no limit. By default, none, except for Gmail: 2G',
      expected: 'a whole number of bytes from 1000000, a size such as "500M" or "2G", or null',
    }),
  })
  .meta({
    description: 'An IMAP server, in place of baseUrl and token',
    expected: 'an object with at least host, user and password',
  });

const insecure = optIn('Allow http to a host that is not this machine');

const days = (description: string) =>
  wholeNumber(1, 36_500, description)
    .nullable()
    .meta({ expected: 'a whole number of days from 1 to 36500, or null' });

const accountSchema = z
  .strictObject({
    name: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/)
      .meta({
        description: 'A short name for this account',
        expected: 'a name of 1 to 64 letters, digits, dots, dashes and underscores',
      }),
    baseUrl: serviceUrl('Address of the mailbox surface of the service').optional(),
    token: tokenSchema.optional(),
    imap: imapSchema.optional(),
    insecure,
    platform: z
      .strictObject({
        url: serviceUrl('Address of the platform surface of the service'),
        token: tokenSchema,
        orderId: z.string().min(1).optional().meta({
          description: 'Resource id of the mail order; needed for delivery logs',
          expected: 'a resource id',
        }),
      })
      .optional()
      .meta({
        description: 'The platform surface, for managing webhooks and reading their delivery logs',
        expected: 'an object with url, token and orderId',
      }),
    mailboxes: selection('Addresses of mailboxes'),
    folders: selection('Paths of folders'),
  })
  .meta({ expected: 'an object with at least name, and baseUrl and token or imap' });

export const configSchema = z
  .strictObject({
    $schema: z.string().optional().meta({ expected: 'the address of a JSON Schema' }),
    dataDir: z
      .string()
      .min(1)
      .refine((text) => pathProblem(text) === undefined)
      .default('./data')
      .meta({
        description: 'Folder of the archive, relative to this file',
        expected: 'the path of a folder',
      }),
    accounts: z.array(accountSchema).min(1).meta({
      description: 'The accounts to mirror: one for each token',
      expected: 'a list of at least one account',
    }),
    archive: section({
      codec: z.enum(['zstd', 'zlib']).default('zstd').meta({
        description:
          'Compression of closed log segments; zlib keeps an archive readable for mailkeep versions without zstd',
        expected: '"zstd" or "zlib"',
      }),
      compact: optIn(
        'Lets the daemon rewrite closed segments compressed with another codec, one at a time, while it is idle',
      ),
    }).prefault({}),
    insecure,
    rateLimit: section({
      requestsPerMinute: z
        .number()
        .positive()
        .max(MAX_REQUESTS_PER_MINUTE)
        .default(DEFAULT_REQUESTS_PER_MINUTE)
        .meta({
          description:
            'Most requests a minute for each token and host; the service may slow mailkeep down further',
          expected: 'a number above 0, at most 10000000',
        }),
      concurrency: wholeNumber(1, 256, 'Requests in flight at once').default(4),
    }).prefault({}),
    sync: section({
      order: z.enum(['newest', 'oldest']).default('newest').meta({
        description:
          'What a first sync fetches first: newest lets you search recent mail within a minute',
        expected: '"newest" or "oldest"',
      }),
      first: z.enum(['recent', 'small', 'folders']).default('recent').meta({
        description:
          'What to fetch first from a large backlog, over all folders: recent is mail of the last year, small is messages below 100 kB, folders fetches one folder after the other. Needs the order newest',
        expected: '"recent", "small" or "folders"',
      }),
    }).prefault({}),
    schedule: section({
      sync: cronField('When the daemon looks for changes').default('*/5 * * * *'),
      sweep: cronField('When it compares every message and flag').default('0 3 * * *'),
      verify: cronField('When it re-reads and hashes the archive').default('0 4 * * 0'),
      prune: cronField(
        'When it permanently removes what retention allows; with null, only "mailkeep prune" run by hand does',
      )
        .nullable()
        .default(null),
      timezone: checked(
        'Time zone of the schedules',
        '"local" or a zone name such as Europe/Vilnius',
        isTimeZone,
      ).default('local'),
      jitterSeconds: wholeNumber(0, 3_600, 'Random delay before each run, in seconds').default(0),
    }).prefault({}),
    brake: section({
      maxEndedShare: z.number().min(0).max(1).default(0.3).meta({
        description: 'Share of a folder that may disappear in one pass before the brake holds it',
        expected: 'a number from 0 to 1',
      }),
      minMessages: wholeNumber(
        1,
        1_000_000_000,
        'Folders with fewer messages are not held by share',
      ).default(50),
      confirmAfter: duration(
        'A sync at least this much later may confirm the deletions that were held',
      ).default('6h'),
    }).prefault({}),
    retention: section({
      endedAfterDays: days(
        'prune may remove messages deleted at the service this many days ago; null keeps everything',
      ).default(null),
      draftsAfterDays: days(
        'The same for messages that were only ever in a drafts folder: earlier versions of a message',
      ).default(null),
      rules: z
        .array(
          section({
            mailbox: namePattern.optional(),
            folder: namePattern.optional(),
            endedAfterDays: days('As above, for what this rule selects; null keeps it'),
          }),
        )
        .default([])
        .meta({
          description:
            'Mailboxes and folders with their own number of days; the first matching rule applies',
          expected: 'a list of objects with mailbox, folder and endedAfterDays',
        }),
      keepAtLeast: wholeNumber(
        0,
        1_000_000_000,
        'How many of the newest deleted messages of each folder stay, however old',
      ).default(0),
      hold: z
        .array(
          z
            .union([
              z.strictObject({ query: z.string().min(1) }),
              z.strictObject({ mailbox: namePattern }),
            ])
            .meta({ expected: 'an object with query or mailbox' }),
        )
        .default([])
        .meta({
          description: 'Legal hold: queries and mailboxes whose messages are never pruned',
          expected: 'a list of objects with query or mailbox',
        }),
    }).prefault({}),
    copies: copiesSchema,
    webhook: z
      .strictObject({
        listen: listen('Where the daemon receives webhooks; it faces the internet').default(
          '127.0.0.1:8025',
        ),
        publicUrl: z.string().refine(isWebUrl).nullable().default(null).meta({
          description: 'The address at which the service reaches it',
          expected: 'an https address, or null',
        }),
      })
      .nullish()
      .meta({
        description: 'Receiver of webhooks; off when absent',
        expected: 'an object with listen and publicUrl',
      }),
    health: z
      .strictObject({
        listen: listen('Where the daemon serves health and metrics').default('127.0.0.1:8026'),
        hosts: z
          .array(checked('A host name', HOST_NAME, (text) => HOST_NAME_PATTERN.test(text)))
          .default([])
          .meta({
            description:
              'Host names under which monitoring asks; IP addresses and localhost always work',
            expected: `a list; each entry is ${HOST_NAME}`,
          }),
      })
      .nullish()
      .meta({
        description: 'Health and metrics; off when absent',
        expected: 'an object with listen and hosts',
      }),
    web: z
      .strictObject({
        listen: listen(
          'Where the daemon serves the web interface: this machine, unless publicUrl is set',
        ).default('127.0.0.1:8027'),
        publicUrl: z.string().refine(isPublicOrigin).nullable().default(null).meta({
          description: 'The https address at which a reverse proxy serves it',
          expected: 'an https address without a path, or null',
        }),
      })
      .nullish()
      .meta({
        description: 'The web interface; off when absent',
        expected: 'an object with listen and publicUrl',
      }),
    notify: section({
      command: z.string().min(1).nullable().default(null).meta({
        description: 'Command to run on failure and on recovery',
        expected: 'a command line, or null',
      }),
      url: z.string().refine(isPostable).nullable().default(null).meta({
        description: 'Address that is notified of failures and recoveries',
        expected: 'an http or https address without user and password, or null',
      }),
    }).prefault({}),
    quota: section({
      warnPercent: wholeNumber(
        1,
        100,
        'Notify once when a mailbox has used this share of its quota at the service; null never does',
      )
        .nullable()
        .default(95)
        .meta({ expected: 'a whole number from 1 to 100, or null' }),
    }).prefault({}),
    fleet: fleetSchema.optional(),
    minFreeBytes: sizeOrBytes(0).default(1_073_741_824).meta({
      description: 'Free disk space below which fetching stops: bytes, or a size such as "5G"',
      expected: 'a whole number of bytes, or a size such as "500M" or "5G"',
    }),
    log: section({
      level: z
        .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
        .default('info')
        .meta({
          description: 'Least severe level to log',
          expected: 'one of trace, debug, info, warn, error, fatal, silent',
        }),
    }).prefault({}),
  })
  .meta({
    title: 'mailkeep configuration',
    description:
      'Settings of mailkeep; only accounts with name, and baseUrl and token or imap, are required.',
    expected: 'an object',
  });

/** Config file of a fleet node, whose accounts are stored in the registry. */
export const fleetFileSchema = configSchema.extend({
  accounts: configSchema.shape.accounts.optional(),
  fleet: fleetSchema,
});

export type ConfigFile = z.output<typeof configSchema>;
export type ConfigInput = z.input<typeof configSchema>;

/** The subset of JSON Schema used by the config schema. */
const nodeSchema = z.looseObject({
  get properties() {
    return z.record(z.string(), nodeSchema).optional();
  },
  get items() {
    return nodeSchema.optional();
  },
  get anyOf() {
    return z.array(nodeSchema).optional();
  },
  expected: z.string().optional(),
});
type SchemaNode = z.infer<typeof nodeSchema>;

/** Returns the text of `config.schema.json`, the JSON Schema that editors apply to the config file. */
export function jsonSchemaText(): string {
  const schema = z.toJSONSchema(configSchema, {
    io: 'input',
    override: ({ zodSchema, jsonSchema }) => {
      delete jsonSchema.expected;
      if (zodSchema === accountSchema) {
        jsonSchema.required = ['name'];
        jsonSchema.oneOf = [{ required: ['baseUrl', 'token'] }, { required: ['imap'] }];
      }
      // A fleet node's config file needs no accounts.
      if (zodSchema !== configSchema) return;
      delete jsonSchema.required;
      jsonSchema.anyOf = [{ required: ['accounts'] }, { required: ['fleet'] }];
    },
  });
  return `${JSON.stringify(schema, null, 2)}\n`;
}

/** Returns the schema nodes that can describe the value at a path, with each alternative as a separate node. */
function nodesAt(root: SchemaNode, path: readonly PropertyKey[]): readonly SchemaNode[] {
  const withAlternatives = (node: SchemaNode): SchemaNode[] => [node, ...(node.anyOf ?? [])];
  let nodes = [root];
  for (const key of path)
    nodes = nodes.flatMap(withAlternatives).flatMap(({ items, properties }): SchemaNode[] => {
      const next = typeof key === 'number' ? items : properties?.[String(key)];
      return next === undefined ? [] : [next];
    });
  return nodes.slice(0, 1).flatMap(withAlternatives);
}

type Path = readonly PropertyKey[];

/**
 * Returns one problem for each validation issue, in schema order.
 * @param raw the parsed file
 */
export function validationProblems(
  issues: readonly z.core.$ZodIssue[],
  raw: unknown,
): ConfigProblem[] {
  const schema = nodeSchema.parse(z.toJSONSchema(configSchema, { io: 'input' }));
  return issues.flatMap((issue): ConfigProblem[] => {
    if (issue.code === 'unrecognized_keys') {
      const names = nodesAt(schema, issue.path)
        .flatMap(({ properties = {} }) => Object.keys(properties))
        .filter((key) => key !== '$schema');
      return issue.keys.map((key) => ({
        path: pathText([...issue.path, key]),
        found: null,
        expected: names.join(', '),
        suggestion: nearest(key, names),
      }));
    }
    const [node] = nodesAt(schema, issue.path);
    const value = valueAt(raw, issue.path);
    const values = issue.code === 'invalid_value' ? issue.values.map(String) : [];
    // The nearest allowed value, or a base URL with the missing scheme added.
    const suggest = (text: string): string | null =>
      nearest(text, values) ?? (issue.path.at(-1) === 'baseUrl' ? withScheme(text) : null);
    return [
      {
        path: pathText(issue.path),
        found: describe(value, issue.path),
        expected: node?.expected ?? issue.message,
        suggestion: typeof value === 'string' ? suggest(value) : null,
      },
    ];
  });
}

/** Returns problems that involve more than one field. Reads the raw file, so that invalid fields do not hide any. */
export function crossFieldProblems(raw: unknown): ConfigProblem[] {
  return [
    ...[sourceKinds, imapSources, plainHttp, repeatedNames, repeatedMailboxes],
    ...[sharedPorts, openWeb],
  ].flatMap((find) => find(raw));
}

/** Each account has either an API or an IMAP server. */
function sourceKinds(raw: unknown): ConfigProblem[] {
  return listAccounts(raw).flatMap((account, i) => {
    if (!isObject(account)) return [];
    const problem = (field: string, expected: string): ConfigProblem => {
      const path = ['accounts', i, field];
      return { path: pathText(path), found: describe(account[field], path), expected };
    };
    const { baseUrl, token } = accountSchema.shape;
    return account.imap === undefined
      ? (['baseUrl', 'token'] as const).flatMap((field) => {
          const schema = { baseUrl, token }[field].unwrap();
          return account[field] === undefined ? problem(field, schema.meta()?.expected ?? '') : [];
        })
      : ['baseUrl', 'token', 'platform'].flatMap((field) =>
          account[field] === undefined ? [] : problem(field, 'nothing, next to imap'),
        );
  });
}

function imapSources(raw: unknown): ConfigProblem[] {
  return listAccounts(raw).flatMap((account, i) => {
    const imap = valueAt(account, ['imap']);
    if (!isObject(imap)) return [];
    const { host, tls, user, address, password, accessToken, oauth } = imap;
    const problem = (field: string, expected: string): ConfigProblem => {
      const path = ['accounts', i, 'imap', field];
      return { path: pathText(path), found: describe(imap[field], path), expected };
    };
    const isExposed = tls === 'none' && typeof host === 'string' && !isLoopback(host);
    const needsAddress = typeof user === 'string' && !user.includes('@') && address === undefined;
    const given = Object.entries({ password, accessToken, oauth }).flatMap(([field, value]) =>
      value === undefined ? [] : field,
    );
    return [
      ...(isExposed
        ? [problem('tls', '"implicit" or "starttls", since this host is not this machine')]
        : []),
      ...(needsAddress ? [problem('address', 'an address, since the user is not one')] : []),
      ...(given.length === 0 ? [problem('password', passwordSchema.meta()?.expected ?? '')] : []),
      ...given.slice(1).map((field) => problem(field, `nothing, next to ${given[0]}`)),
      ...oauthProblems(oauth, (field, expected) => {
        const path = ['accounts', i, 'imap', 'oauth', field];
        return { path: pathText(path), found: describe(valueAt(oauth, [field]), path), expected };
      }),
    ];
  });
}

function oauthProblems(
  oauth: unknown,
  problem: (field: string, expected: string) => ConfigProblem,
): ConfigProblem[] {
  if (!isObject(oauth)) return [];
  const { provider, issuer, tenant, clientSecret, scope, appOnly } = oauth;
  const isMicrosoft = provider === 'microsoft';
  const isApp = appOnly === true;
  return [
    provider === undefined && issuer === undefined && problem('provider', 'a provider, or issuer'),
    provider !== undefined &&
      issuer !== undefined &&
      problem('issuer', 'nothing, next to provider'),
    issuer !== undefined && scope === undefined && problem('scope', 'the scopes for IMAP'),
    tenant !== undefined && !isMicrosoft && problem('tenant', 'nothing, without microsoft'),
    isApp && clientSecret === undefined && problem('clientSecret', 'a secret, with appOnly'),
    isApp && isMicrosoft && tenant === undefined && problem('tenant', 'a tenant, with appOnly'),
    isApp && provider === 'google' && problem('appOnly', 'false, with google'),
  ].filter((one) => one !== false);
}

/** Two accounts with the same mailbox would overwrite each other's places. */
function repeatedMailboxes(raw: unknown): ConfigProblem[] {
  const ids = listAccounts(raw).map((account) => {
    const imap = imapSchema.safeParse(valueAt(account, ['imap'])).data;
    return imap === undefined ? undefined : imapMailboxId(imap);
  });
  return ids.flatMap((id, i) => {
    const first = id === undefined ? i : ids.indexOf(id);
    const path = pathText(['accounts', i, 'imap', 'id']);
    const expected = `another mailbox than accounts[${first}]`;
    return first < i ? { path, found: JSON.stringify(id), expected } : [];
  });
}

function plainHttp(raw: unknown): ConfigProblem[] {
  const isInsecure = valueAt(raw, ['insecure']) === true;
  return listAccounts(raw).flatMap((account, i) => {
    if (isInsecure || valueAt(account, ['insecure']) === true) return [];
    return [['baseUrl'], ['platform', 'url']].flatMap((field) => {
      const text = valueAt(account, field);
      if (typeof text !== 'string' || !URL.canParse(text)) return [];
      const { protocol, hostname } = new URL(text);
      if (protocol !== 'http:' || isLoopback(hostname)) return [];
      const path = ['accounts', i, ...field];
      return {
        path: pathText(path),
        found: describe(text, path),
        expected: 'https, since this host is not this machine (or "insecure": true next to it)',
      };
    });
  });
}

function repeatedNames(raw: unknown): ConfigProblem[] {
  const names = listAccounts(raw).map((account) => valueAt(account, ['name']));
  return names.flatMap((name, i) =>
    typeof name === 'string' && names.indexOf(name) < i
      ? {
          path: pathText(['accounts', i, 'name']),
          found: JSON.stringify(name),
          expected: 'a name that no other account has',
        }
      : [],
  );
}

const LISTENERS = [
  ['webhook', '127.0.0.1:8025'],
  ['health', '127.0.0.1:8026'],
  ['web', '127.0.0.1:8027'],
] as const;

function readAddress(raw: unknown, [section, fallback]: (typeof LISTENERS)[number]) {
  const settings = valueAt(raw, [section]);
  if (settings === undefined || settings === null) return undefined;
  const text = valueAt(settings, ['listen']) ?? fallback;
  return typeof text === 'string' ? parseListen(text) : undefined;
}

function sharedPorts(raw: unknown): ConfigProblem[] {
  const ports = LISTENERS.map((listener) => readAddress(raw, listener)?.port);
  return LISTENERS.flatMap(([section], i) => {
    const port = ports[i];
    const first = port === undefined || port === 0 ? -1 : ports.indexOf(port);
    const other = LISTENERS[first]?.[0];
    if (first < 0 || first === i || other === undefined) return [];
    const reason = other === 'webhook' ? ', which faces the internet' : '';
    return {
      path: `${section}.listen`,
      found: `port ${port}`,
      expected: `another port than ${other}.listen${reason}`,
    };
  });
}

/** Mail is never served to another machine unencrypted. */
function openWeb(raw: unknown): ConfigProblem[] {
  const at = readAddress(raw, LISTENERS[2]);
  const publicUrl = valueAt(raw, ['web', 'publicUrl']) ?? null;
  if (at === undefined || isLoopback(at.host) || publicUrl !== null) return [];
  const expected = '127.0.0.1, or the https address of a reverse proxy in web.publicUrl';
  return [{ path: 'web.listen', found: at.host, expected }];
}

function listAccounts(raw: unknown): readonly unknown[] {
  const accounts = valueAt(raw, ['accounts']);
  return Array.isArray(accounts) ? accounts : [];
}

/** Fields that can contain a secret, so errors never show their text. */
const SECRET_FIELD = /token|secret|password|credential|registry$|^url$|^publicUrl$|^command$/i;
const SHOWN_CHARACTERS = 80;

function describe(value: unknown, path: Path): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'an object';
  if (typeof value !== 'string') return String(value);
  if (value === '') return 'an empty text';
  if (path.some((key) => SECRET_FIELD.test(String(key)))) return 'a text (not shown)';
  // The part before @ can be a password.
  if (/^[a-z][a-z0-9+.-]*:/i.test(value) && value.includes('@')) {
    return 'an address with a user name or password (not shown)';
  }
  const address = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value.replace(/[?#].*$/s, '') : value;
  return JSON.stringify(
    address.length > SHOWN_CHARACTERS ? `${address.slice(0, SHOWN_CHARACTERS)}…` : address,
  );
}

/** Returns a path such as `accounts[0].token.env`, or `(file)` for the whole file. */
export function pathText(path: Path): string {
  const text = path
    .map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`))
    .join('');
  return text === '' ? '(file)' : text.replace(/^\./, '');
}

export type TokenSource =
  | { readonly kind: 'literal'; readonly secret: Secret; readonly name: string }
  | { readonly kind: 'env'; readonly name: string }
  | { readonly kind: 'file'; readonly name: string }
  | { readonly kind: 'credential'; readonly name: string }
  /** `name` is the program. Its arguments can contain secrets. */
  | { readonly kind: 'command'; readonly name: string; readonly args: readonly string[] };

export type RetentionSettings = Readonly<ConfigFile['retention']>;

/** Converts a validated file into settings. Relative paths are resolved against the directory of `file` (absolute). */
export function toSettings(content: ConfigFile, file: string) {
  const folder = configFolder(file);
  const { accounts, dataDir, brake, webhook, health, web, notify, minFreeBytes } = content;
  const { archive, rateLimit, sync, schedule, retention, quota, log } = content;
  const listener = <Section extends { readonly listen: string }>(section?: Section | null) =>
    section === undefined || section === null
      ? null
      : { ...section, listen: assertParsed('listen address', parseListen(section.listen)) };
  return deepFreeze({
    ...{ file, archive, rateLimit, sync, schedule, retention, quota, log },
    dataDir: path.resolve(folder, dataDir),
    accounts: accounts.map((account) => accountSettings(account, folder, content.insecure)),
    brake: {
      maxEndedShare: brake.maxEndedShare,
      minMessages: brake.minMessages,
      confirmAfterMs: assertParsed('duration', parseDuration(brake.confirmAfter)),
    },
    copies: copySettings(content.copies, folder),
    webhook: listener(webhook),
    health: listener(health),
    web: listener(web),
    notify: { ...notify, url: notify.url === null ? null : new Secret(notify.url) },
    minFreeBytes: bytesIn(minFreeBytes),
  });
}

/** The configuration in use: absolute paths, times in milliseconds, wrapped secrets; deeply frozen. */
export type Settings = Readonly<ReturnType<typeof toSettings>>;

/**
 * @param folder base directory for relative paths
 * @param insecure allows plain http for every account
 */
function accountSettings(
  account: ConfigFile['accounts'][number],
  folder: string,
  insecure: boolean,
): AccountSettings {
  const { name, imap, mailboxes, folders } = account;
  if (imap === undefined) return apiAccount(account, folder, insecure);
  return { kind: 'imap', name, imap: imapSettings(imap, name, folder), mailboxes, folders };
}

function apiAccount(account: ConfigFile['accounts'][number], folder: string, insecure: boolean) {
  const { name, baseUrl = '', token = '', platform, mailboxes, folders } = account;
  return {
    kind: 'api',
    name,
    baseUrl: baseUrl.replace(/\/+$/, ''),
    token: tokenSource(token, folder, `accounts.${name}.token`),
    /** Allows plain http to other machines. */
    insecure: account.insecure || insecure,
    platform:
      platform === undefined
        ? null
        : {
            url: platform.url.replace(/\/+$/, ''),
            token: tokenSource(platform.token, folder, `accounts.${name}.platform.token`),
            orderId: platform.orderId ?? null,
          },
    mailboxes,
    folders,
  } as const;
}

/** An account of the hosted service. */
export type ApiAccount = Readonly<ReturnType<typeof apiAccount>>;

type ImapSection = NonNullable<ConfigFile['accounts'][number]['imap']>;

function imapServer({ host, port, tls, user }: ImapSection) {
  return {
    host: host.toLowerCase(),
    port: port ?? (tls === 'implicit' ? 993 : 143),
    ...{ tls, user },
  };
}

function imapMailboxId(section: ImapSection): string {
  const { host, port, user } = imapServer(section);
  const isUsual = port === 993 || port === 143;
  return section.id ?? `${host}${isUsual ? '' : `:${port}`}/${user}`;
}

function imapSettings(section: ImapSection, name: string, folder: string) {
  const server = imapServer(section);
  const place = `accounts.${name}.imap`;
  const { password = '', accessToken, oauth, connections, maxBytesPerDay: perDay } = section;
  const signIn =
    oauth !== undefined
      ? ({ kind: 'oauth', ...oauthSettings(oauth, folder, `${place}.oauth`) } as const)
      : accessToken !== undefined
        ? ({
            kind: 'token',
            secret: tokenSource(accessToken, folder, `${place}.accessToken`),
          } as const)
        : ({
            kind: 'password',
            secret: tokenSource(password, folder, `${place}.password`),
          } as const);
  return {
    server,
    address: section.address ?? server.user,
    /** Resource id of the mailbox in the archive. */
    id: imapMailboxId(section),
    /** True if the configuration names the id, and does not leave it to host, port and user. */
    hasId: section.id !== undefined,
    signIn,
    connections,
    /** Null for no limit; undefined for the limit that the server is known for. */
    maxBytesPerDay: typeof perDay === 'string' ? bytesIn(perDay) : perDay,
  };
}

function oauthSettings(oauth: z.output<typeof oauthSchema>, folder: string, place: string) {
  const { provider, tenant = 'common', clientId, clientSecret, appOnly } = oauth;
  const known = provider === undefined ? undefined : OAUTH_PROVIDERS[provider];
  const scope = oauth.scope ?? (appOnly ? known?.appScope : undefined) ?? known?.scope ?? '';
  const issuer =
    provider === 'google'
      ? 'https://accounts.google.com'
      : provider === 'microsoft'
        ? `https://login.microsoftonline.com/${tenant}/v2.0`
        : (oauth.issuer ?? '');
  return {
    provider: provider ?? null,
    ...{ issuer, clientId, scope, appOnly },
    clientSecret:
      clientSecret === undefined
        ? null
        : tokenSource(clientSecret, folder, `${place}.clientSecret`),
  };
}

export type OAuthSettings = Readonly<ReturnType<typeof oauthSettings>>;

/** Returns how a person signs in to a checked account; undefined if nobody has to. Secrets must be in the entry. */
export function personalSignIn({
  imap,
}: ConfigFile['accounts'][number]): OAuthSettings | undefined {
  const oauth = imap?.oauth;
  return oauth === undefined || oauth.appOnly ? undefined : oauthSettings(oauth, '/', 'imap.oauth');
}

export type ImapSettings = Readonly<ReturnType<typeof imapSettings>>;

/** An account on an IMAP server: one mailbox. */
export interface ImapAccount extends Pick<ApiAccount, 'name' | 'mailboxes' | 'folders'> {
  readonly kind: 'imap';
  readonly imap: ImapSettings;
}

export type AccountSettings = ApiAccount | ImapAccount;

/** Returns the sources of all secrets of the accounts. */
export function tokenSources(accounts: readonly AccountSettings[]): TokenSource[] {
  return accounts.flatMap((account) => {
    if (account.kind === 'imap') return secretsOf(account.imap);
    const { token, platform } = account;
    return platform ? [token, platform.token] : [token];
  });
}

function secretsOf({ signIn }: ImapSettings): TokenSource[] {
  if (signIn.kind !== 'oauth') return [signIn.secret];
  return signIn.clientSecret === null ? [] : [signIn.clientSecret];
}

/** @param place what errors call a secret in the file itself */
export function tokenSource(
  token: z.output<typeof passwordSchema>,
  folder: string,
  place: string,
): TokenSource {
  if (typeof token === 'string') return { kind: 'literal', secret: new Secret(token), name: place };
  if ('env' in token) return { kind: 'env', name: token.env };
  if ('file' in token) return { kind: 'file', name: path.resolve(folder, token.file) };
  if ('command' in token) {
    const [program = '', ...args] = token.command;
    return { kind: 'command', name: program, args };
  }
  return { kind: 'credential', name: token.credential };
}

function assertParsed<T>(what: string, parsed: T | undefined): T {
  if (parsed === undefined) throw new TypeError(`a validated ${what} does not parse`);
  return parsed;
}

function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null && !Object.isFrozen(part)) deepFreeze(part);
  }
  return Object.freeze(value);
}

/**
 * Checks one entry of `accounts` on its own.
 * @param source of the entry, for errors
 * @param name that the entry must have
 * @throws config-invalid, with every problem
 */
export function checkAccount(entry: unknown, source: string, name: string) {
  const parsed = accountSchema.safeParse(entry);
  const config = { accounts: [entry] };
  const issues = (parsed.error?.issues ?? []).map((issue) => ({
    ...issue,
    path: ['accounts', 0, ...issue.path],
  }));
  const problems = [...validationProblems(issues, config), ...crossFieldProblems(config)].map(
    withinEntry,
  );
  if (parsed.success && parsed.data.name !== name) {
    const expected = `"${name}", as the command calls the account (or no name)`;
    problems.push({ path: 'name', found: JSON.stringify(parsed.data.name), expected });
  }
  if (parsed.success && problems.length === 0) return parsed.data;
  throw configInvalid(source, problems);
}

/** Rewrites a path within `accounts` as a path within a single entry. */
function withinEntry(problem: ConfigProblem): ConfigProblem {
  const path = problem.path.replace(/^accounts\[0\]\.?/, '');
  return { ...problem, path: path === '' ? '(file)' : path };
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
