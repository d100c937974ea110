import { errorsOf } from './mailkeep-error.ts';

/** The store as people know it, such as `s3://bucket/prefix`, never with a secret. */
type OfStore = { readonly store: string };

type OfObject = OfStore & { readonly name: string };

type OfRefusal = OfStore & {
  readonly operation: string;
  readonly status: number;
  readonly answer: string;
};

/** Codes of stores of objects, with the facts that fill their sentences. */
export interface ObjectFacts {
  readonly 'object-missing': OfObject;
  /** There is an object of this name, which was to be new. Nothing was changed. */
  readonly 'object-exists': OfObject;
  /** The store keeps a version until `until` (ISO 8601; null where it does not say): it was not deleted. */
  readonly 'object-locked': OfObject & { readonly until: string | null };
  /** Other bytes are there than those whose reading began. */
  readonly 'object-changed': OfObject;
  /** The store has other bytes under the name than those that were stored there. */
  readonly 'object-damaged': OfObject;
  /** Other bytes were read from the source while they were sent than before. Nothing was stored. */
  readonly 'object-source-changed': OfObject;
  /** There are more or fewer bytes than announced. Nothing was stored. */
  readonly 'object-length': OfObject & { readonly announced: number; readonly found: number };
  /** The store took the object and its lock, but does not keep the lock: `found` is what it kept, or null. */
  readonly 'object-lock-dropped': OfObject & {
    readonly wanted: string;
    readonly found: string | null;
  };
  readonly 'store-unable': OfStore & { readonly ability: 'refuse-existing' | 'lock' };
  /** The server answered with an error; `answer` is its own code, such as `MalformedXML`, or empty. */
  readonly 'store-refused': OfRefusal;
  /** The server answered that it cannot do this now, such as `SlowDown`, as often as `tries` says. */
  readonly 'store-busy': OfRefusal & { readonly tries: number };
  /** The server has no room for more: a quota is reached, or its disks are full. */
  readonly 'store-full': OfRefusal;
  /** The server does not accept the credentials, or they do not allow this. */
  readonly 'store-access-denied': OfRefusal;
  /** No answer, or one that broke off. */
  readonly 'store-unreachable': OfStore & {
    readonly operation: string;
    readonly reason: string;
    readonly tries: number;
  };
  /** The server's certificate is not to be trusted. Nothing was sent. */
  readonly 'store-certificate': OfStore & { readonly reason: string };
  /** The answer is none of an S3 server's, or more than one may send. */
  readonly 'store-answer-invalid': OfStore & {
    readonly operation: string;
    readonly problem: string;
  };
  /** The bucket is elsewhere, and requests are never sent on to another address. `region` is where the server says the bucket is, if it does. */
  readonly 'store-redirects': OfStore & {
    readonly operation: string;
    readonly status: number;
    readonly region: string | null;
  };
  readonly 'store-no-bucket': OfStore & { readonly bucket: string };
  /** The bucket is somebody else's. */
  readonly 'store-bucket-taken': OfStore & { readonly bucket: string };
  /** What is at a name in a folder is a link, a folder or a device: it is neither followed nor touched. */
  readonly 'store-entry-foreign': { readonly file: string };
  readonly 'store-disk-full': { readonly file: string; readonly errno: string };
  readonly 'store-unreadable': { readonly file: string; readonly errno: string };
  readonly 'store-unwritable': { readonly file: string; readonly errno: string };
  /** `found` never holds a password. */
  readonly 'store-target-invalid': { readonly found: string; readonly problem: string };
  /** `searched` names variables of the environment and files. */
  readonly 'store-no-credentials': { readonly searched: readonly string[] };
  /** A setting of S3: a variable of the environment, or a file and what is in it. */
  readonly 'store-setting-invalid': { readonly source: string; readonly problem: string };
}

/** An error of a store of objects. What was stored before stays. */
export const objectError = errorsOf<ObjectFacts>(
  'origin',
  {
    'object-missing': 'damage',
    'object-changed': 'damage',
    'object-damaged': 'damage',
    'object-source-changed': 'damage',
    'object-length': 'damage',
    'store-access-denied': 'auth',
    'store-full': 'disk',
    'store-redirects': 'config',
    'store-no-bucket': 'config',
    'store-bucket-taken': 'config',
    'store-entry-foreign': 'disk',
    'store-disk-full': 'disk',
    'store-unreadable': 'disk',
    'store-unwritable': 'disk',
    'store-target-invalid': 'usage',
    'store-no-credentials': 'config',
    'store-setting-invalid': 'config',
  },
  ['store-unreachable', 'store-busy', 'store-disk-full'],
);
