import { z } from 'zod';
import { noPathProblem } from '../objects/s3-target.ts';
import { readSize } from '../search/sizes.ts';
import { parseListen, parseServiceUrl } from './address.ts';
import { copiesSchema } from './copies.ts';
import {
  checked,
  cronField,
  duration,
  ELSEWHERE,
  offUnlessSet,
  section,
  wholeNumber,
} from './field-kinds.ts';
import { fleetSchema } from './fleet-schema.ts';
import { DEFAULT_REQUESTS_PER_MINUTE, MOST_REQUESTS_PER_MINUTE } from './rate.ts';

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

function isHostName(text: string): boolean {
  return /^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})$/.test(text);
}

/** Where a reverse proxy serves the web interface: all of its host, since pages name each other from the root. */
function isPublicOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, pathname, search, hash } = new URL(text);
  const rest = username + password + search + hash;
  return protocol === 'https:' && pathname === '/' && rest === '';
}

/** No request is made to an address that names a user. */
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

export const tokenSchema = z.union([z.string().min(1), ...ELSEWHERE]).meta({
  description:
    'The bearer token, or where to read it when a request needs it: an environment variable, a file, or a systemd credential',
  expected: 'a token, or {"env": NAME}, {"file": PATH} or {"credential": NAME}',
});

const insecure = offUnlessSet('Allow http to a host that is not this machine');

const days = (description: string) =>
  wholeNumber(1, 36_500, description)
    .nullable()
    .meta({ expected: 'a whole number of days from 1 to 36500, or null' });

export const accountSchema = z
  .strictObject({
    name: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/)
      .meta({
        description: 'A short name for this account',
        expected: 'a name of 1 to 64 letters, digits, dots, dashes and underscores',
      }),
    baseUrl: serviceUrl('Address of the mailbox surface of the service'),
    token: tokenSchema,
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
  .meta({ expected: 'an object with at least name, baseUrl and token' });

export const configSchema = z
  .strictObject({
    $schema: z.string().optional().meta({ expected: 'the address of a JSON Schema' }),
    dataDir: z
      .string()
      .min(1)
      .refine((text) => noPathProblem(text) === undefined)
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
      compact: offUnlessSet(
        'Lets the daemon rewrite closed segments compressed with another codec, one at a time, while it is idle',
      ),
    }).prefault({}),
    insecure,
    rateLimit: section({
      requestsPerMinute: z
        .number()
        .positive()
        .max(MOST_REQUESTS_PER_MINUTE)
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
          .array(checked('A host name', HOST_NAME, isHostName))
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
    minFreeBytes: z
      .union([
        z.int().min(0).max(Number.MAX_SAFE_INTEGER),
        z.string().refine((text) => readSize(text) !== undefined),
      ])
      .default(1_073_741_824)
      .meta({
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
    description: 'Settings of mailkeep; only accounts with name, baseUrl and token are required.',
    expected: 'an object',
  });

/** The file of a node of a fleet: its accounts are in the registry. */
export const fleetFileSchema = configSchema.extend({
  accounts: configSchema.shape.accounts.optional(),
  fleet: fleetSchema,
});

/** The file's content with defaults filled in. */
export type ConfigFile = z.output<typeof configSchema>;
/** The file's content as people write it. */
export type ConfigInput = z.input<typeof configSchema>;
