import { z } from 'zod';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { parseTarget } from '../objects/s3-target.ts';
import { isLoopback, parseListen, parseServiceUrl } from './address.ts';
import { checked, ELSEWHERE, offUnlessSet, section, wholeNumber } from './field-kinds.ts';

/** Archives that one process can hold. */
const MOST_ARCHIVES = 100_000;

const NODE = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
const EGRESS = /^[\x21-\x7e]{1,128}$/;

/** What a machine of a fleet has to know: where the fleet's registry and objects are, and its own place in it. */
export const fleetSchema = section({
  registry: z.union([z.string().refine(isRegistryAddress), ...ELSEWHERE]).meta({
    description:
      'The database of the fleet in PostgreSQL, postgresql://USER@HOST:PORT/DATABASE, or where to read this address. A password is better kept out of it: in PGPASSWORD or .pgpass',
    expected:
      'an address such as "postgresql://mailkeep@db.example.org/fleet", or {"env": NAME}, {"file": PATH} or {"credential": NAME}',
  }),
  directRegistry: z
    .union([z.string().refine(isRegistryAddress), ...ELSEWHERE])
    .optional()
    .meta({
      description:
        'The same database past a pooler in transaction mode, through which no notification comes; fleet.registry by default',
      expected:
        'an address such as "postgresql://mailkeep@db.example.org/fleet", or {"env": NAME}, {"file": PATH} or {"credential": NAME}',
    }),
  store: section({
    bucket: checked('The bucket', 'the name of a bucket', (text) => isTarget(text, '')),
    prefix: checked(
      'What the names of the fleet in the bucket begin with',
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
      'File with the keys that encrypt the tokens in the registry, relative to this file; the same on every node',
    expected: 'the path of a file',
  }),
  node: checked(
    'The name of this machine in the fleet; no other machine has it, and it stays the same as long as its disk does',
    'a name of 1 to 64 letters, digits, dots, dashes and underscores',
    (text) => NODE.test(text),
  ),
  address: checked(
    'Where other nodes reach this one',
    'a host and port such as "node-1.example.org:8443"',
    isReachable,
  ).optional(),
  listen: checked(
    'Where the worker listens for other nodes, if not at `address`',
    'a host and port such as "0.0.0.0:8443"',
    (text) => (parseListen(text)?.port ?? 0) > 0,
  ).optional(),
  egress: checked(
    'The address that requests to the mail service come from: nodes behind the same one share its limit; the node by default',
    '1 to 128 printable characters without blanks',
    (text) => EGRESS.test(text),
  ).optional(),
  capacity: wholeNumber(1, MOST_ARCHIVES, 'How many accounts this node takes at most').default(
    1_000,
  ),
  createWebhooks: offUnlessSet(
    'Lets workers register webhook.publicUrl at the service for each mailbox that they hold',
  ),
  cache: z.string().min(1).default('./cache').meta({
    description: 'Folder for the local copies of archives, relative to this file',
    expected: 'the path of a folder',
  }),
}).meta({
  description: 'A fleet of machines with one registry, for "mailkeep fleet"; off when absent',
});

/** What else may be wrong with it, the registry reports: its parser is not loaded for local commands. */
function isRegistryAddress(text: string): boolean {
  return /^postgres(?:ql)?:\/\//i.test(text) && URL.canParse(text);
}

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
