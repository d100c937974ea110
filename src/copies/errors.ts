import { defineErrors, reasonText, shortList } from '../core/errors.ts';
import { count, counted } from '../core/text.ts';
import type { RecipientType } from './format/errors.ts';

export const copiesError = defineErrors({
  disk: {
    'offsite-key-unwritable': ({ file, reason }: { file: string; reason: string }) =>
      `The keys of the copy cannot be written to ${file}: ${reasonText(reason)}.`,
    'offsite-key-unreadable': ({ file, reason }: { file: string; reason: string }) => [
      `The keys of a copy cannot be read from ${file}: ${reasonText(reason)}.`,
      '"mailkeep copy adopt" writes them again, with the recovery key.',
    ],
  },
  usage: {
    'offsite-exists': ({ to }: { to: string }) => [
      `${to} has a copy already. Nothing was changed there.`,
      'Use another prefix for a new copy. If this archive came from that copy, run "mailkeep copy adopt".',
    ],
    'offsite-no-copy': ({ to }: { to: string }) => [
      `There is no copy at ${to}.`,
      'Begin one with "mailkeep copy init", or check the address.',
    ],
    'offsite-other-copy': (f: { to: string; found: string; folder: string }) => [
      `This archive has no keys for the copy at ${f.to} (${f.found}); they would be in ${f.folder}.`,
      'If this archive came from that copy, run "mailkeep copy adopt" with the recovery key.',
    ],
    'offsite-no-locks': ({ to }: { to: string }) => [
      `${to} cannot lock objects. Nothing was copied.`,
      'A bucket locks if it was created with Object Lock, at a provider that has it; a folder never does. Copy without --lock-days (or "lockDays"), or use another bucket.',
    ],
    'offsite-ahead': ({ to, number, here }: { to: string; number: number; here: number }) => [
      `The copy at ${to} reaches commit ${count(number)}, but this archive only reaches commit ${count(here)}. Nothing was changed there.`,
      'If this archive lost its last commits, "mailkeep copy --from" brings them back into an empty folder.',
    ],
    /** `nearest` lists the numbers of nearby commits. */
    'offsite-no-commit': (f: { to: string; number: number; nearest: readonly string[] }) => [
      `The copy at ${f.to} has no manifest of commit ${count(f.number)}.`,
      f.nearest.length === 0 ? null : `It has manifests of commits ${shortList(f.nearest, 5)}.`,
    ],
    'offsite-not-empty': ({ dir, stranger }: { dir: string; stranger: string }) => [
      `${dir} is not empty: ${stranger} is in it. Nothing was changed there.`,
      'Name an empty folder.',
    ],
    'offsite-write-only': ({ to }: { to: string }) => [
      `This machine can write to the copy at ${to}, but has no key that reads it.`,
      '"mailkeep copy --from" with the recovery key makes a readable archive of it, in an empty folder.',
    ],
    'offsite-no-way': ({ variable }: { variable: string }) => [
      'Nothing was given that opens the copy.',
      `Use --recovery-key-file, --passphrase-file, --identity-file or the variable ${variable}.`,
    ],
    'offsite-no-witness': () => [
      'There is no terminal to show the recovery key on. Nothing was done.',
      'Use --recovery-key-file with a new file, and move that file away from this machine.',
    ],
    'offsite-key-unfit': ({ to }: { to: string }) => [
      `What was given opens the copy at ${to}, but not with the keys that this machine has.`,
      'It is from before a rotation, or somebody else added it. Use a newer recovery key or passphrase.',
    ],
    'offsite-no-recipient': ({ to, id, found }: { to: string; id: string; found: number }) => [
      found === 0
        ? `No recipient of the copy at ${to} has an id that begins with "${id}".`
        : `The ids of ${counted(found, 'recipient')} of the copy at ${to} begin with "${id}".`,
      '"mailkeep copy key list" lists the ids.',
    ],
    'offsite-too-many-recipients': (f: { to: string; type: RecipientType; most: number }) => [
      `The copy at ${f.to} would have more than ${count(f.most)} recipients of type ${f.type}. Nothing was changed there.`,
      'Remove some first, with "mailkeep copy key remove".',
    ],
    'offsite-too-many-rotations': ({ to, most }: { to: string; most: number }) => [
      `The copy at ${to} has ${count(most)} keys already, and takes no more. Nothing was changed there.`,
      'Begin a new copy with another prefix.',
    ],
    /** `ids` identifies the recipients with newer keys. */
    'offsite-key-older': ({ to, ids }: { to: string; ids: readonly string[] }) => [
      ids.length === 0
        ? `The keys of the copy at ${to} were rotated. What was given opens only what was copied before.`
        : `The keys of the copy at ${to} were rotated, or a rotation was begun: what was given does not have the keys of ${counted(ids.length, 'recipient')} (${shortList(ids, 3)}).`,
      ids.length === 0
        ? 'Use a newer recovery key, passphrase or identity.'
        : 'Use a newer recovery key, passphrase or identity. If there is none, --older-key continues with these keys.',
    ],
    /** The copy was opened with an age identity. `found` is the signer in its keys, which the user did not specify. */
    'offsite-signer-unnamed': ({ to, found }: { to: string; found: string }) => [
      `Whoever knows an age recipient can wrap keys for it, so nothing shows that those of the copy at ${to} are yours. They name the signing key ${found}. Nothing was changed.`,
      'Compare it with the one that "copy init" printed, and which the file of the recovery key has too. If it is the same, name it with --signer.',
    ],
    'offsite-last-recipient': ({ to }: { to: string }) => [
      `Nothing was removed: nobody else could open what is copied to ${to} from now on.`,
      'Add a recipient first, with "mailkeep copy key add".',
    ],
    'offsite-unknown': ({ to }: { to: string }) => [
      `No copy at ${to} is known.`,
      '"mailkeep status" lists the copies with their addresses.',
    ],
    'offsite-planned': ({ to }: { to: string }) => [
      `The daemon keeps the copy at ${to} up to date.`,
      'Remove it from "copies" in the configuration and reload the daemon first.',
    ],
    'offsite-target-gone': ({ to }: { to: string }) => [
      `${to} had a copy of this archive, and has none now. Nothing was written there.`,
      'Check whether its disk is mounted. If you emptied it on purpose, run "mailkeep copy --to" once.',
    ],
    'offsite-nothing': ({ dir }: { dir: string }) => [
      `The archive in ${dir} has no commit yet: there is nothing to copy.`,
      'Run "mailkeep sync" first.',
    ],
  },
  'in-use': {
    'offsite-in-use': ({ to }: { to: string }) => [
      `Another process is copying this archive to ${to}.`,
      'Wait until it has ended.',
    ],
  },
  damage: {
    'offsite-no-manifest': ({ to, invalid }: { to: string; invalid: number }) =>
      invalid === 0
        ? [
            `The copy at ${to} is empty: nothing has been copied to it yet.`,
            'Run "mailkeep copy --to" with its address.',
          ]
        : [
            `None of the ${counted(invalid, 'manifest')} at ${to} is valid: they are damaged, or signed by another key.`,
            'If an archive was rebuilt and copied from elsewhere, use its keys. Otherwise somebody changed the copy.',
          ],
    'offsite-too-many-manifests': ({ to, most }: { to: string; most: number }) => [
      `More than ${count(most)} objects at ${to} are named like manifests. A copy never has so many.`,
      'Somebody else put them there. Remove those that "mailkeep copy" did not write.',
    ],
    'offsite-rolled-back': ({ to, number, seen }: { to: string; number: number; seen: number }) => [
      `The newest manifest at ${to} is of commit ${count(number)}, but commit ${count(seen)} was copied there before.`,
      'Somebody removed newer manifests, or put an older copy back. Check who can write there, and begin a new copy with another prefix.',
    ],
    'offsite-diverged': ({ to, number }: { to: string; number: number }) => [
      `Commit ${count(number)} in the copy at ${to} differs from the one in this archive. Nothing was changed there.`,
      'It is the copy of an archive that has continued elsewhere. Use another prefix for a copy of this one.',
    ],
    'offsite-other-signer': ({ to, signer }: { to: string; signer: string }) => [
      `The key in checkpoint.key (${signer}) may not sign for the copy at ${to}.`,
      'Put the earlier checkpoint.key back, or run "mailkeep copy adopt" with the recovery key.',
    ],
    'offsite-gap': ({ to, name, from }: { to: string; name: string; from: number }) =>
      `The manifest at ${to} does not list the bytes from ${count(from)} on of ${name}.`,
    'offsite-broken-chain': ({ to, segment }: { to: string; segment: number }) =>
      `Segment ${segment} of the copy at ${to} does not continue the one before it, or does not end with the commit of the manifest.`,
    'offsite-too-large': ({ to, name, most }: { to: string; name: string; most: number }) =>
      `${name} at ${to} has more than ${counted(most, 'byte')}, which none of ours has.`,
    'offsite-not-kept': ({ to, name }: { to: string; name: string }) => [
      `${name} was written to ${to}, but something else is there now.`,
      'This machine still writes with the keys of before. Check who else can write there, then run the command again.',
    ],
    'offsite-signer-differs': (f: { to: string; found: string; wanted: string }) => [
      `The copy at ${f.to} was begun with the signing key ${f.found}, not with ${f.wanted}. Nothing was changed.`,
      'Compare both with what "copy init" printed. If that is the second one, somebody has put other keys there.',
    ],
    'offsite-no-recipients': ({ to }: { to: string }) => [
      `No recipient at ${to} opens what is copied there now: without this machine, the copy is lost.`,
      'Add one with "mailkeep copy key add".',
    ],
    /** The object that authorised another machine's key to sign for the copy is missing. */
    'offsite-signer-lost': ({ to }: { to: string }) =>
      `A later signer of the copy at ${to} was damaged or removed there.`,
    'offsite-mend-first': ({ to, names }: { to: string; names: readonly string[] }) => [
      `Objects at ${to} are damaged or missing: ${shortList(names, 3)}. Nothing was changed.`,
      'Run "mailkeep copy --to" with its address first: it stores them again.',
    ],
    'offsite-cut-off': ({ to, number, seen }: { to: string; number: number; seen: number }) => [
      `The copy at ${to} ends with commit ${count(number)}, but commit ${count(seen)} was copied there before.`,
      '"mailkeep copy --to" copies what it lacks.',
    ],
    'offsite-invalid-manifests': ({ to, invalid }: { to: string; invalid: number }) => [
      `${counted(invalid, 'manifest')} at ${to} ${invalid === 1 ? 'is' : 'are'} damaged or forged. The copy was made all the same.`,
      'Check who can write there.',
    ],
    'offsite-damaged': ({ to, found }: { to: string; found: number }) => [
      `The copy at ${to} was found damaged in ${counted(found, 'place')}.`,
      '"mailkeep verify --copy" shows where; "mailkeep copy --to" uploads again what is damaged.',
    ],
  },
  origin: {
    'offsite-not-made': ({ to, reason }: { to: string; reason: string }) =>
      `The archive could not be copied to ${to}: the process ended with ${reason}.`,
    /** `until` is the expiry of the last lock, ISO 8601; null if the store does not report it. */
    'offsite-kept-locked': (f: { to: string; locked: number; until: string | null }) => [
      `${counted(f.locked, 'object')} at ${f.to} could not be removed, because the bucket keeps ${f.locked === 1 ? 'it' : 'them'} locked${f.until === null ? '' : ` until ${f.until}`}. The copy was made all the same.`,
      'The next copy after the lock has ended removes what is left.',
    ],
    /** `copiedAt` is ISO 8601; null before the first copy. */
    'offsite-stale': (f: { to: string; behind: number | null; copiedAt: string | null }) => [
      f.copiedAt === null
        ? `The copy at ${f.to} was never made.`
        : `The copy at ${f.to} was last brought up to date at ${f.copiedAt}, and lacks ${counted(f.behind ?? 0, 'commit')}.`,
      '"mailkeep status" shows why.',
    ],
  },
});

/** Nothing has been changed when any of these is thrown. */
export const copyError = defineErrors({
  usage: {
    'copy-other-archive': (f: { to: string; found: string; wanted: string }) => [
      `${f.to} contains another archive (${f.found}; this one is ${f.wanted}). Nothing was changed there.`,
      'Name an empty folder, or the one with the copy of this archive.',
    ],
    'copy-unreadable': ({ to }: { to: string }) => [
      `${to} contains a log that cannot be read; it may belong to another archive. Nothing was changed there.`,
      'Name an empty folder; if this is a damaged copy, move it aside.',
    ],
    'copy-ahead': ({ to, number, here }: { to: string; number: number; here: number }) => [
      `${to} reaches commit ${number}, but this archive only reaches commit ${here}. Nothing was changed there.`,
      'If this archive lost its last commits, "mailkeep verify --repair --from" restores them from the copy.',
    ],
    'copy-diverged': ({ to, number }: { to: string; number: number; here: number }) => [
      `Commit ${number} in ${to} differs from the one in this archive: something else wrote to it. Nothing was changed there.`,
      'Only "mailkeep copy" may write to a copy. Name an empty folder for a new one.',
    ],
    'copy-elsewhere': ({ to, stranger }: { to: string; stranger: string }) => [
      `${to} contains something other than a copy of an archive: ${stranger}. Nothing was changed there.`,
      'Name a folder that is empty or does not exist yet.',
    ],
    'copy-linked': ({ file }: { file: string }) => [
      `${file} is a link: the copy would be written somewhere else. Nothing was changed there.`,
      'Name the actual folder for the copy.',
    ],
    'copy-onto-itself': ({ to }: { to: string }) => [
      `${to} is the archive itself, or is inside it.`,
      'Name another folder.',
    ],
  },
});

/** The label of a store, such as `s3://bucket/prefix`, without secrets. */
type OfStore = { store: string };

type OfObject = OfStore & { name: string };

type OfRefusal = OfStore & {
  operation: string;
  status: number;
  answer: string;
};

function refusal(status: number, answer: string): string {
  return answer === '' ? `HTTP ${status}` : `HTTP ${status} ${answer}`;
}

const NOTHING_LOST = 'What was stored stays. Run the same command again: it continues.';

function times(tries: number): string {
  return tries > 1 ? `, ${counted(tries, 'time')} in a row` : '';
}

export const objectError = defineErrors({
  damage: {
    'object-missing': ({ store, name }: OfObject) => `${store} has no object ${name}.`,
    'object-changed': ({ store, name }: OfObject) =>
      `The object ${name} in ${store} changed while it was being read.`,
    'object-damaged': ({ store, name }: OfObject) => [
      `${store} returned other bytes for ${name} than those that were stored there.`,
      'Check the store. Another copy of the object is needed to repair it.',
    ],
    'object-source-changed': ({ store, name }: OfObject) => [
      `The source of ${name} changed while it was uploaded. Nothing was stored in ${store}.`,
      'The disk may be failing (dmesg, smartctl). Verify the archive.',
    ],
    'object-length': (f: OfObject & { announced: number; found: number }) =>
      `${counted(f.announced, 'byte')} were announced for ${f.name}, but there are ${f.found < f.announced ? 'fewer' : 'more'}. Nothing was stored in ${f.store}.`,
  },
  origin: {
    /** `until` is ISO 8601; null if the store does not report it. */
    'object-locked': ({ store, name, until }: OfObject & { until: string | null }) =>
      `${store} keeps a version of ${name} locked${until === null ? '' : ` until ${until}`}. It was not deleted.`,
    /** The store accepted an object with a lock, but did not apply the lock. */
    'object-lock-dropped': (f: OfObject & { wanted: string; found: string | null }) => [
      `${f.store} does not lock ${f.name} as asked: ${f.wanted} was wanted, ${f.found ?? 'no lock'} was found.`,
      'Object Lock has to be enabled when a bucket is created, and not every S3 server has it. Copy without a lock, or use another bucket.',
    ],
    'store-unable': ({ store }: OfStore & { ability: 'lock' }) => [
      `${store} cannot lock objects.`,
      'Object Lock has to be enabled when a bucket is created, and not every S3 server has it.',
    ],
    /** `answer` is the server's error code, such as `MalformedXML`, or an empty string. */
    'store-refused': ({ store, operation, status, answer }: OfRefusal) => [
      `${store} refused ${operation}: ${refusal(status, answer)}.`,
      NOTHING_LOST,
    ],
    /** The server reported a temporary failure, such as `SlowDown`, on every attempt. */
    'store-busy': ({ store, operation, status, answer, tries }: OfRefusal & { tries: number }) => [
      `${store} could not carry out ${operation}: ${refusal(status, answer)}${times(tries)}.`,
      NOTHING_LOST,
    ],
    'store-unreachable': (f: OfStore & { operation: string; reason: string; tries: number }) => [
      `${f.operation} of ${f.store} got no complete answer: ${reasonText(f.reason)}${times(f.tries)}.`,
      NOTHING_LOST,
    ],
    'store-certificate': ({ store, reason }: OfStore & { reason: string }) => [
      `The certificate of the server of ${store} cannot be trusted: ${reasonText(reason)}. Nothing was sent.`,
      'For a certificate authority of your own, set NODE_EXTRA_CA_CERTS to its file.',
    ],
    /** The server is probably not an S3 server, or its response exceeds the limits. */
    'store-answer-invalid': (f: OfStore & { operation: string; problem: string }) => [
      `${f.store} answered ${f.operation} with something other than S3: ${f.problem}.`,
      'Check the address of the server.',
    ],
  },
  disk: {
    /** The server's quota or disks are full. */
    'store-full': ({ store, operation, status, answer }: OfRefusal) => [
      `${store} has no room: the server answered ${operation} with ${refusal(status, answer)}.`,
      'What was stored stays, and the copy is what it was before. Raise the quota of the bucket or make room, and run the same command again: it continues.',
    ],
    'store-entry-foreign': ({ file }: { file: string }) => [
      `${file} is no file of the copy: a link, a folder or a device. It was not followed or changed.`,
      'Move it away, or name another folder.',
    ],
    'store-disk-full': ({ file, errno }: { file: string; errno: string }) => [
      `There is no room for ${file}: ${reasonText(errno)}.`,
      NOTHING_LOST,
    ],
    'store-unreadable': ({ file, errno }: { file: string; errno: string }) =>
      `${file} cannot be read: ${reasonText(errno)}.`,
    'store-unwritable': ({ file, errno }: { file: string; errno: string }) => [
      `${file} cannot be written: ${reasonText(errno)}.`,
      'Check the permissions, and whether the file system is read-only.',
    ],
  },
  auth: {
    'store-access-denied': ({ store, operation, status, answer }: OfRefusal) => [
      `${store} refused ${operation}: ${refusal(status, answer)}.`,
      'Check the access key, the secret key, the region, the clock of this machine, and what the key may do.',
    ],
  },
  config: {
    /** Redirects are not followed. `region` is the bucket's region, or null if the server does not report it. */
    'store-redirects': (
      f: OfStore & { operation: string; status: number; region: string | null },
    ) => [
      `${f.store} is elsewhere: the server answered ${f.operation} with HTTP ${f.status}. No request was sent on.`,
      f.region === null
        ? 'Check the region and the address of the server.'
        : `The bucket is in the region ${f.region}: set AWS_REGION.`,
    ],
    'store-no-bucket': ({ bucket }: OfStore & { bucket: string }) => [
      `There is no bucket ${bucket}.`,
      'Check its name, region and server, or create it with --create-bucket.',
    ],
    'store-bucket-taken': ({ bucket }: OfStore & { bucket: string }) => [
      `The bucket ${bucket} belongs to somebody else.`,
      'Choose another name.',
    ],
    /** `searched` lists the environment variables and files that were tried. */
    'store-no-credentials': ({ searched }: { searched: readonly string[] }) => [
      `There are no credentials for S3. Looked for ${searched.join(', ')}.`,
      'Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile in AWS_PROFILE.',
    ],
    'store-setting-invalid': ({ source, problem }: { source: string; problem: string }) =>
      `${source} cannot be used: ${problem}.`,
  },
  retryable: ['store-unreachable', 'store-busy', 'store-disk-full'],
});
