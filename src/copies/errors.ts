import { defineErrors, reasonText, say, some } from '../core/errors.ts';
import { count, counted } from '../core/text.ts';
import type { RecipientType } from './format/errors.ts';

/** An error about an off-site copy. */
export const copiesError = defineErrors({
  disk: {
    'offsite-key-unwritable': ({ file, reason }: { file: string; reason: string }) =>
      say(`The keys of the copy cannot be written to ${file}: ${reasonText(reason)}.`),
    'offsite-key-unreadable': ({ file, reason }: { file: string; reason: string }) =>
      say(
        `The keys of a copy cannot be read from ${file}: ${reasonText(reason)}.`,
        '"mailkeep copy adopt" writes them again, with the recovery key.',
      ),
  },
  usage: {
    /** `copy init` where a copy is already. */
    'offsite-exists': ({ to }: { to: string }) =>
      say(
        `${to} has a copy already. Nothing was changed there.`,
        'Use another prefix for a new copy. If this archive came from that copy, run "mailkeep copy adopt".',
      ),
    /** Nothing there says that it is a copy. */
    'offsite-no-copy': ({ to }: { to: string }) =>
      say(
        `There is no copy at ${to}.`,
        'Begin one with "mailkeep copy init", or check the address.',
      ),
    /** The target holds the copy of other keys than this machine's. */
    'offsite-other-copy': (f: {
      to: string;
      found: string;
      /** Where its keys would be. */
      folder: string;
    }) =>
      say(
        `This archive has no keys for the copy at ${f.to} (${f.found}); they would be in ${f.folder}.`,
        'If this archive came from that copy, run "mailkeep copy adopt" with the recovery key.',
      ),
    /** Objects were to be locked where nothing can be. */
    'offsite-no-locks': ({ to }: { to: string }) =>
      say(
        `${to} cannot lock objects. Nothing was copied.`,
        'A bucket locks if it was created with Object Lock, at a provider that has it; a folder never does. Copy without --lock-days (or "lockDays"), or use another bucket.',
      ),
    /** The copy has commits that this archive lacks. */
    'offsite-ahead': ({ to, number, here }: { to: string; number: number; here: number }) =>
      say(
        `The copy at ${to} reaches commit ${count(number)}, but this archive only reaches commit ${count(here)}. Nothing was changed there.`,
        'If this archive lost its last commits, "mailkeep copy --from" brings them back into an empty folder.',
      ),
    /** No manifest is of the commit that was asked for; `nearest` are numbers of commits. */
    'offsite-no-commit': (f: { to: string; number: number; nearest: readonly string[] }) =>
      say(
        `The copy at ${f.to} has no manifest of commit ${count(f.number)}.`,
        f.nearest.length === 0 ? null : `It has manifests of commits ${some(f.nearest, 5)}.`,
      ),
    /** The folder to bring an archive back into is not empty. */
    'offsite-not-empty': ({ dir, stranger }: { dir: string; stranger: string }) =>
      say(
        `${dir} is not empty: ${stranger} is in it. Nothing was changed there.`,
        'Name an empty folder.',
      ),
    /** This machine holds keys for writing only. */
    'offsite-write-only': ({ to }: { to: string }) =>
      say(
        `This machine can write to the copy at ${to}, but has no key that reads it.`,
        '"mailkeep copy --from" with the recovery key makes a readable archive of it, in an empty folder.',
      ),
    /** Nothing was given that opens the copy, and nobody can be asked. `variable` is that of the environment. */
    'offsite-no-way': ({ variable }: { variable: string }) =>
      say(
        'Nothing was given that opens the copy.',
        `Use --recovery-key-file, --passphrase-file, --identity-file or the variable ${variable}.`,
      ),
    /** The recovery key can be shown to nobody. */
    'offsite-no-witness': () =>
      say(
        'There is no terminal to show the recovery key on. Nothing was done.',
        'Use --recovery-key-file with a new file, and move that file away from this machine.',
      ),
    /** What was given opens the copy with other keys than those that this machine writes with. */
    'offsite-key-unfit': ({ to }: { to: string }) =>
      say(
        `What was given opens the copy at ${to}, but not with the keys that this machine has.`,
        'It is from before a rotation, or somebody else added it. Use a newer recovery key or passphrase.',
      ),
    /** Not exactly one object below `keys/` has an id that begins like this. */
    'offsite-no-recipient': ({ to, id, found }: { to: string; id: string; found: number }) =>
      say(
        found === 0
          ? `No recipient of the copy at ${to} has an id that begins with "${id}".`
          : `The ids of ${counted(found, 'recipient')} of the copy at ${to} begin with "${id}".`,
        '"mailkeep copy key list" lists the ids.',
      ),
    /** A reader would not try so many. */
    'offsite-too-many-recipients': (f: { to: string; type: RecipientType; most: number }) =>
      say(
        `The copy at ${f.to} would have more than ${count(f.most)} recipients of type ${f.type}. Nothing was changed there.`,
        'Remove some first, with "mailkeep copy key remove".',
      ),
    /** A reader would not take so many private keys. */
    'offsite-too-many-rotations': ({ to, most }: { to: string; most: number }) =>
      say(
        `The copy at ${to} has ${count(most)} keys already, and takes no more. Nothing was changed there.`,
        'Begin a new copy with another prefix.',
      ),
    /** What was given opens the copy, but not the newest keys; `ids` are of recipients that have newer ones. */
    'offsite-key-older': ({ to, ids }: { to: string; ids: readonly string[] }) =>
      say(
        ids.length === 0
          ? `The keys of the copy at ${to} were rotated. What was given opens only what was copied before.`
          : `The keys of the copy at ${to} were rotated, or a rotation was begun: what was given does not have the keys of ${counted(ids.length, 'recipient')} (${some(ids, 3)}).`,
        ids.length === 0
          ? 'Use a newer recovery key, passphrase or identity.'
          : 'Use a newer recovery key, passphrase or identity. If there is none, --older-key continues with these keys.',
      ),
    /** An age identity opened the copy, and the user named no signer to compare: `found` is the one that its keys name. */
    'offsite-signer-unnamed': ({ to, found }: { to: string; found: string }) =>
      say(
        `Whoever knows an age recipient can wrap keys for it, so nothing shows that those of the copy at ${to} are yours. They name the signing key ${found}. Nothing was changed.`,
        'Compare it with the one that "copy init" printed, and which the file of the recovery key has too. If it is the same, name it with --signer.',
      ),
    /** Without those to remove, nobody could open what is copied from now on. */
    'offsite-last-recipient': ({ to }: { to: string }) =>
      say(
        `Nothing was removed: nobody else could open what is copied to ${to} from now on.`,
        'Add a recipient first, with "mailkeep copy key add".',
      ),
    /** No copy of this address is known. */
    'offsite-unknown': ({ to }: { to: string }) =>
      say(`No copy at ${to} is known.`, '"mailkeep status" lists the copies with their addresses.'),
    /** The daemon's configuration has the copy that was to be dropped. */
    'offsite-planned': ({ to }: { to: string }) =>
      say(
        `The daemon keeps the copy at ${to} up to date.`,
        'Remove it from "copies" in the configuration and reload the daemon first.',
      ),
    /** A folder that had a readable copy has none. */
    'offsite-target-gone': ({ to }: { to: string }) =>
      say(
        `${to} had a copy of this archive, and has none now. Nothing was written there.`,
        'Check whether its disk is mounted. If you emptied it on purpose, run "mailkeep copy --to" once.',
      ),
    /** The archive has no commit yet. */
    'offsite-nothing': ({ dir }: { dir: string }) =>
      say(
        `The archive in ${dir} has no commit yet: there is nothing to copy.`,
        'Run "mailkeep sync" first.',
      ),
  },
  'in-use': {
    /** Another process of this archive writes to the copy. */
    'offsite-in-use': ({ to }: { to: string }) =>
      say(`Another process is copying this archive to ${to}.`, 'Wait until it has ended.'),
  },
  damage: {
    /** Manifests are there, and none of them is valid. */
    'offsite-no-manifest': ({ to, invalid }: { to: string; invalid: number }) =>
      invalid === 0
        ? say(
            `The copy at ${to} is empty: nothing has been copied to it yet.`,
            'Run "mailkeep copy --to" with its address.',
          )
        : say(
            `None of the ${counted(invalid, 'manifest')} at ${to} is valid: they are damaged, or signed by another key.`,
            'If an archive was rebuilt and copied from elsewhere, use its keys. Otherwise somebody changed the copy.',
          ),
    /** More objects are named like manifests than a copy ever has. */
    'offsite-too-many-manifests': ({ to, most }: { to: string; most: number }) =>
      say(
        `More than ${count(most)} objects at ${to} are named like manifests. A copy never has so many.`,
        'Somebody else put them there. Remove those that "mailkeep copy" did not write.',
      ),
    /** The newest manifest is older than one that was seen before. */
    'offsite-rolled-back': ({ to, number, seen }: { to: string; number: number; seen: number }) =>
      say(
        `The newest manifest at ${to} is of commit ${count(number)}, but commit ${count(seen)} was copied there before.`,
        'Somebody removed newer manifests, or put an older copy back. Check who can write there, and begin a new copy with another prefix.',
      ),
    /** The copy has another commit under this number. */
    'offsite-diverged': ({ to, number }: { to: string; number: number }) =>
      say(
        `Commit ${count(number)} in the copy at ${to} differs from the one in this archive. Nothing was changed there.`,
        'It is the copy of an archive that has continued elsewhere. Use another prefix for a copy of this one.',
      ),
    /** The manifest is signed by a key that is not the one of this archive's checkpoints. */
    'offsite-other-signer': ({ to, signer }: { to: string; signer: string }) =>
      say(
        `The key in checkpoint.key (${signer}) may not sign for the copy at ${to}.`,
        'Put the earlier checkpoint.key back, or run "mailkeep copy adopt" with the recovery key.',
      ),
    /** An object that the manifest does not list, or does not list completely. */
    'offsite-gap': ({ to, name, from }: { to: string; name: string; from: number }) =>
      say(`The manifest at ${to} does not list the bytes from ${count(from)} on of ${name}.`),
    /** A segment does not continue the one before, or the last does not end with the manifest's commit. */
    'offsite-broken-chain': ({ to, segment }: { to: string; segment: number }) =>
      say(
        `Segment ${segment} of the copy at ${to} does not continue the one before it, or does not end with the commit of the manifest.`,
      ),
    'offsite-too-large': ({ to, name, most }: { to: string; name: string; most: number }) =>
      say(`${name} at ${to} has more than ${counted(most, 'byte')}, which none of ours has.`),
    /** What was written there is not what is there now. */
    'offsite-not-kept': ({ to, name }: { to: string; name: string }) =>
      say(
        `${name} was written to ${to}, but something else is there now.`,
        'This machine still writes with the keys of before. Check who else can write there, then run the command again.',
      ),
    /** Another key began the copy than the one that the user named. */
    'offsite-signer-differs': (f: { to: string; found: string; wanted: string }) =>
      say(
        `The copy at ${f.to} was begun with the signing key ${f.found}, not with ${f.wanted}. Nothing was changed.`,
        'Compare both with what "copy init" printed. If that is the second one, somebody has put other keys there.',
      ),
    /** None of the recipients there opens what is copied now. */
    'offsite-no-recipients': ({ to }: { to: string }) =>
      say(
        `No recipient at ${to} opens what is copied there now: without this machine, the copy is lost.`,
        'Add one with "mailkeep copy key add".',
      ),
    /** The object is missing that makes another machine's key sign for the copy. */
    'offsite-signer-lost': ({ to }: { to: string }) =>
      say(`A later signer of the copy at ${to} was damaged or removed there.`),
    /** Objects are damaged there that have to be intact first. */
    'offsite-mend-first': ({ to, names }: { to: string; names: readonly string[] }) =>
      say(
        `Objects at ${to} are damaged or missing: ${some(names, 3)}. Nothing was changed.`,
        'Run "mailkeep copy --to" with its address first: it stores them again.',
      ),
    /** A readable copy ends before a commit that it had. */
    'offsite-cut-off': ({ to, number, seen }: { to: string; number: number; seen: number }) =>
      say(
        `The copy at ${to} ends with commit ${count(number)}, but commit ${count(seen)} was copied there before.`,
        '"mailkeep copy --to" copies what it lacks.',
      ),
    /** A copy was made, next to manifests that are not valid. */
    'offsite-invalid-manifests': ({ to, invalid }: { to: string; invalid: number }) =>
      say(
        `${counted(invalid, 'manifest')} at ${to} ${invalid === 1 ? 'is' : 'are'} damaged or forged. The copy was made all the same.`,
        'Check who can write there.',
      ),
    /** Reading a copy back found damage. */
    'offsite-damaged': ({ to, found }: { to: string; found: number }) =>
      say(
        `The copy at ${to} was found damaged in ${counted(found, 'place')}.`,
        '"mailkeep verify --copy" shows where; "mailkeep copy --to" uploads again what is damaged.',
      ),
  },
  origin: {
    /** The process of a copy ended without a result. */
    'offsite-not-made': ({ to, reason }: { to: string; reason: string }) =>
      say(`The archive could not be copied to ${to}: the process ended with ${reason}.`),
    /** Objects that were to be removed, and that the bucket keeps locked. */
    'offsite-kept-locked': (f: {
      to: string;
      locked: number;
      /** When the last of the locks ends, ISO 8601; null where the store does not say. */
      until: string | null;
    }) =>
      say(
        `${counted(f.locked, 'object')} at ${f.to} could not be removed, because the bucket keeps ${f.locked === 1 ? 'it' : 'them'} locked${f.until === null ? '' : ` until ${f.until}`}. The copy was made all the same.`,
        'The next copy after the lock has ended removes what is left.',
      ),
    /** The daemon could not bring a copy up to date for long. */
    'offsite-stale': (f: {
      to: string;
      behind: number | null;
      /** ISO 8601; null where it was never made. */
      copiedAt: string | null;
    }) =>
      say(
        f.copiedAt === null
          ? `The copy at ${f.to} was never made.`
          : `The copy at ${f.to} was last brought up to date at ${f.copiedAt}, and lacks ${counted(f.behind ?? 0, 'commit')}.`,
        '"mailkeep status" shows why.',
      ),
  },
});

/** Nothing was changed when one of these is thrown. */
export const copyError = defineErrors({
  usage: {
    /** The folder holds another archive. */
    'copy-other-archive': (f: { to: string; found: string; wanted: string }) =>
      say(
        `${f.to} contains another archive (${f.found}; this one is ${f.wanted}). Nothing was changed there.`,
        'Name an empty folder, or the one with the copy of this archive.',
      ),
    /** Files there that look like a log cannot be read: they may be of another archive. */
    'copy-unreadable': ({ to }: { to: string }) =>
      say(
        `${to} contains a log that cannot be read; it may belong to another archive. Nothing was changed there.`,
        'Name an empty folder; if this is a damaged copy, move it aside.',
      ),
    /** The copy has commits that this archive lacks: it would become shorter. */
    'copy-ahead': ({ to, number, here }: { to: string; number: number; here: number }) =>
      say(
        `${to} reaches commit ${number}, but this archive only reaches commit ${here}. Nothing was changed there.`,
        'If this archive lost its last commits, "mailkeep verify --repair --from" restores them from the copy.',
      ),
    /** The copy has another commit under a number: somebody wrote to it. */
    'copy-diverged': ({ to, number }: { to: string; number: number; here: number }) =>
      say(
        `Commit ${number} in ${to} differs from the one in this archive: something else wrote to it. Nothing was changed there.`,
        'Only "mailkeep copy" may write to a copy. Name an empty folder for a new one.',
      ),
    /** The folder holds no archive, but other files. */
    'copy-elsewhere': ({ to, stranger }: { to: string; stranger: string }) =>
      say(
        `${to} contains something other than a copy of an archive: ${stranger}. Nothing was changed there.`,
        'Name a folder that is empty or does not exist yet.',
      ),
    /** The log of the copy is a link: it would be written, and tidied, somewhere else than in the folder that was named. */
    'copy-linked': ({ file }: { file: string }) =>
      say(
        `${file} is a link: the copy would be written somewhere else. Nothing was changed there.`,
        'Name the actual folder for the copy.',
      ),
    /** The folder is the archive itself, or lies in it. */
    'copy-onto-itself': ({ to }: { to: string }) =>
      say(`${to} is the archive itself, or is inside it.`, 'Name another folder.'),
  },
});

/** The store as people know it, such as `s3://bucket/prefix`, never with a secret. */
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

/** An error of a store of objects. What was stored before stays. */
export const objectError = defineErrors({
  damage: {
    'object-missing': ({ store, name }: OfObject) => say(`${store} has no object ${name}.`),
    /** Other bytes are there than those whose reading began. */
    'object-changed': ({ store, name }: OfObject) =>
      say(`The object ${name} in ${store} changed while it was being read.`),
    /** The store has other bytes under the name than those that were stored there. */
    'object-damaged': ({ store, name }: OfObject) =>
      say(
        `${store} returned other bytes for ${name} than those that were stored there.`,
        'Check the store. Another copy of the object is needed to repair it.',
      ),
    /** Other bytes were read from the source while they were sent than before. Nothing was stored. */
    'object-source-changed': ({ store, name }: OfObject) =>
      say(
        `The source of ${name} changed while it was uploaded. Nothing was stored in ${store}.`,
        'The disk may be failing (dmesg, smartctl). Verify the archive.',
      ),
    /** There are more or fewer bytes than announced. Nothing was stored. */
    'object-length': (f: OfObject & { announced: number; found: number }) =>
      say(
        `${counted(f.announced, 'byte')} were announced for ${f.name}, but there are ${f.found < f.announced ? 'fewer' : 'more'}. Nothing was stored in ${f.store}.`,
      ),
  },
  origin: {
    /** There is an object of this name, which was to be new. Nothing was changed. */
    'object-exists': ({ store, name }: OfObject) =>
      say(`${store} has an object ${name} already. It was left as it is.`),
    /** The store keeps a version until `until` (ISO 8601; null where it does not say): it was not deleted. */
    'object-locked': ({ store, name, until }: OfObject & { until: string | null }) =>
      say(
        `${store} keeps a version of ${name} locked${until === null ? '' : ` until ${until}`}. It was not deleted.`,
      ),
    /** The store took the object and its lock, but does not keep the lock: `found` is what it kept, or null. */
    'object-lock-dropped': (f: OfObject & { wanted: string; found: string | null }) =>
      say(
        `${f.store} does not lock ${f.name} as asked: ${f.wanted} was wanted, ${f.found ?? 'no lock'} was found.`,
        'Object Lock has to be enabled when a bucket is created, and not every S3 server has it. Copy without a lock, or use another bucket.',
      ),
    'store-unable': ({ store, ability }: OfStore & { ability: 'refuse-existing' | 'lock' }) =>
      ability === 'lock'
        ? say(
            `${store} cannot lock objects.`,
            'Object Lock has to be enabled when a bucket is created, and not every S3 server has it.',
          )
        : say(`${store} cannot refuse to overwrite an object.`),
    /** The server answered with an error; `answer` is its own code, such as `MalformedXML`, or empty. */
    'store-refused': ({ store, operation, status, answer }: OfRefusal) =>
      say(`${store} refused ${operation}: ${refusal(status, answer)}.`, NOTHING_LOST),
    /** The server answered that it cannot do this now, such as `SlowDown`, as often as `tries` says. */
    'store-busy': ({ store, operation, status, answer, tries }: OfRefusal & { tries: number }) =>
      say(
        `${store} could not carry out ${operation}: ${refusal(status, answer)}${times(tries)}.`,
        NOTHING_LOST,
      ),
    /** No answer, or one that broke off. */
    'store-unreachable': (f: OfStore & { operation: string; reason: string; tries: number }) =>
      say(
        `${f.operation} of ${f.store} got no complete answer: ${reasonText(f.reason)}${times(f.tries)}.`,
        NOTHING_LOST,
      ),
    /** The server's certificate is not to be trusted. Nothing was sent. */
    'store-certificate': ({ store, reason }: OfStore & { reason: string }) =>
      say(
        `The certificate of the server of ${store} cannot be trusted: ${reasonText(reason)}. Nothing was sent.`,
        'For a certificate authority of your own, set NODE_EXTRA_CA_CERTS to its file.',
      ),
    /** The answer is none of an S3 server's, or more than one may send. */
    'store-answer-invalid': (f: OfStore & { operation: string; problem: string }) =>
      say(
        `${f.store} answered ${f.operation} with something other than S3: ${f.problem}.`,
        'Check the address of the server.',
      ),
  },
  disk: {
    /** The server has no room for more: a quota is reached, or its disks are full. */
    'store-full': ({ store, operation, status, answer }: OfRefusal) =>
      say(
        `${store} has no room: the server answered ${operation} with ${refusal(status, answer)}.`,
        'What was stored stays, and the copy is what it was before. Raise the quota of the bucket or make room, and run the same command again: it continues.',
      ),
    /** What is at a name in a folder is a link, a folder or a device: it is neither followed nor touched. */
    'store-entry-foreign': ({ file }: { file: string }) =>
      say(
        `${file} is no file of the copy: a link, a folder or a device. It was not followed or changed.`,
        'Move it away, or name another folder.',
      ),
    'store-disk-full': ({ file, errno }: { file: string; errno: string }) =>
      say(`There is no room for ${file}: ${reasonText(errno)}.`, NOTHING_LOST),
    'store-unreadable': ({ file, errno }: { file: string; errno: string }) =>
      say(`${file} cannot be read: ${reasonText(errno)}.`),
    'store-unwritable': ({ file, errno }: { file: string; errno: string }) =>
      say(
        `${file} cannot be written: ${reasonText(errno)}.`,
        'Check the permissions, and whether the file system is read-only.',
      ),
  },
  auth: {
    /** The server does not accept the credentials, or they do not allow this. */
    'store-access-denied': ({ store, operation, status, answer }: OfRefusal) =>
      say(
        `${store} refused ${operation}: ${refusal(status, answer)}.`,
        'Check the access key, the secret key, the region, the clock of this machine, and what the key may do.',
      ),
  },
  config: {
    /** The bucket is elsewhere, and requests are never sent on to another address. `region` is where the server says the bucket is, if it does. */
    'store-redirects': (
      f: OfStore & { operation: string; status: number; region: string | null },
    ) =>
      say(
        `${f.store} is elsewhere: the server answered ${f.operation} with HTTP ${f.status}. No request was sent on.`,
        f.region === null
          ? 'Check the region and the address of the server.'
          : `The bucket is in the region ${f.region}: set AWS_REGION.`,
      ),
    'store-no-bucket': ({ bucket }: OfStore & { bucket: string }) =>
      say(
        `There is no bucket ${bucket}.`,
        'Check its name, region and server, or create it with --create-bucket.',
      ),
    /** The bucket is somebody else's. */
    'store-bucket-taken': ({ bucket }: OfStore & { bucket: string }) =>
      say(`The bucket ${bucket} belongs to somebody else.`, 'Choose another name.'),
    /** `searched` names variables of the environment and files. */
    'store-no-credentials': ({ searched }: { searched: readonly string[] }) =>
      say(
        `There are no credentials for S3. Looked for ${searched.join(', ')}.`,
        'Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile in AWS_PROFILE.',
      ),
    /** A setting of S3: a variable of the environment, or a file and what is in it. */
    'store-setting-invalid': ({ source, problem }: { source: string; problem: string }) =>
      say(`${source} cannot be used: ${problem}.`),
  },
  retryable: ['store-unreachable', 'store-busy', 'store-disk-full'],
});
