import type { ObjectFacts } from '../errors/objects.ts';
import { counted } from './amounts.ts';
import { reasonText, type Sentences, say } from './sentence.ts';

const NOTHING_LOST = 'What was stored stays. Run the same command again: it continues.';

function refusal(status: number, answer: string): string {
  return answer === '' ? `HTTP ${status}` : `HTTP ${status} ${answer}`;
}

function times(tries: number): string {
  return tries > 1 ? `, ${counted(tries, 'time')} in a row` : '';
}

export const OBJECT_SENTENCES: Sentences<ObjectFacts> = {
  'object-missing': ({ store, name }) => say(`${store} has no object ${name}.`),
  'object-exists': ({ store, name }) =>
    say(`${store} has an object ${name} already. It was left as it is.`),
  'object-locked': ({ store, name, until }) =>
    say(
      `${store} keeps a version of ${name} locked${until === null ? '' : ` until ${until}`}. It was not deleted.`,
    ),
  'object-changed': ({ store, name }) =>
    say(`The object ${name} in ${store} changed while it was being read.`),
  'object-damaged': ({ store, name }) =>
    say(
      `${store} returned other bytes for ${name} than those that were stored there.`,
      'Check the store. Another copy of the object is needed to repair it.',
    ),
  'object-source-changed': ({ store, name }) =>
    say(
      `The source of ${name} changed while it was uploaded. Nothing was stored in ${store}.`,
      'The disk may be failing (dmesg, smartctl). Verify the archive.',
    ),
  'object-length': ({ store, name, announced, found }) =>
    say(
      `${counted(announced, 'byte')} were announced for ${name}, but there are ${found < announced ? 'fewer' : 'more'}. Nothing was stored in ${store}.`,
    ),
  'object-lock-dropped': ({ store, name, wanted, found }) =>
    say(
      `${store} does not lock ${name} as asked: ${wanted} was wanted, ${found ?? 'no lock'} was found.`,
      'Object Lock has to be enabled when a bucket is created, and not every S3 server has it. Copy without a lock, or use another bucket.',
    ),
  'store-unable': ({ store, ability }) =>
    ability === 'lock'
      ? say(
          `${store} cannot lock objects.`,
          'Object Lock has to be enabled when a bucket is created, and not every S3 server has it.',
        )
      : say(`${store} cannot refuse to overwrite an object.`),
  'store-refused': ({ store, operation, status, answer }) =>
    say(`${store} refused ${operation}: ${refusal(status, answer)}.`, NOTHING_LOST),
  'store-busy': ({ store, operation, status, answer, tries }) =>
    say(
      `${store} could not carry out ${operation}: ${refusal(status, answer)}${times(tries)}.`,
      NOTHING_LOST,
    ),
  'store-certificate': ({ store, reason }) =>
    say(
      `The certificate of the server of ${store} cannot be trusted: ${reasonText(reason)}. Nothing was sent.`,
      'For a certificate authority of your own, set NODE_EXTRA_CA_CERTS to its file.',
    ),
  'store-full': ({ store, operation, status, answer }) =>
    say(
      `${store} has no room: the server answered ${operation} with ${refusal(status, answer)}.`,
      'What was stored stays, and the copy is what it was before. Raise the quota of the bucket or make room, and run the same command again: it continues.',
    ),
  'store-access-denied': ({ store, operation, status, answer }) =>
    say(
      `${store} refused ${operation}: ${refusal(status, answer)}.`,
      'Check the access key, the secret key, the region, the clock of this machine, and what the key may do.',
    ),
  'store-unreachable': ({ store, operation, reason, tries }) =>
    say(
      `${operation} of ${store} got no complete answer: ${reasonText(reason)}${times(tries)}.`,
      NOTHING_LOST,
    ),
  'store-answer-invalid': ({ store, operation, problem }) =>
    say(
      `${store} answered ${operation} with something other than S3: ${problem}.`,
      'Check the address of the server.',
    ),
  'store-redirects': ({ store, operation, status, region }) =>
    say(
      `${store} is elsewhere: the server answered ${operation} with HTTP ${status}. No request was sent on.`,
      region === null
        ? 'Check the region and the address of the server.'
        : `The bucket is in the region ${region}: set AWS_REGION.`,
    ),
  'store-no-bucket': ({ bucket }) =>
    say(
      `There is no bucket ${bucket}.`,
      'Check its name, region and server, or create it with --create-bucket.',
    ),
  'store-bucket-taken': ({ bucket }) =>
    say(`The bucket ${bucket} belongs to somebody else.`, 'Choose another name.'),
  'store-entry-foreign': ({ file }) =>
    say(
      `${file} is no file of the copy: a link, a folder or a device. It was not followed or changed.`,
      'Move it away, or name another folder.',
    ),
  'store-disk-full': ({ file, errno }) =>
    say(`There is no room for ${file}: ${reasonText(errno)}.`, NOTHING_LOST),
  'store-unreadable': ({ file, errno }) => say(`${file} cannot be read: ${reasonText(errno)}.`),
  'store-unwritable': ({ file, errno }) =>
    say(
      `${file} cannot be written: ${reasonText(errno)}.`,
      'Check the permissions, and whether the file system is read-only.',
    ),
  'store-target-invalid': ({ found, problem }) =>
    say(
      `"${found}" is no place for a copy: ${problem}.`,
      'It takes s3://BUCKET/PREFIX or a folder.',
    ),
  'store-no-credentials': ({ searched }) =>
    say(
      `There are no credentials for S3. Looked for ${searched.join(', ')}.`,
      'Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile in AWS_PROFILE.',
    ),
  'store-setting-invalid': ({ source, problem }) => say(`${source} cannot be used: ${problem}.`),
};
