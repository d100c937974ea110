/** What a store says about an object. */
export interface ObjectFact {
  readonly name: string;
  /** In bytes. */
  readonly length: number;
  /** When it was stored, in milliseconds since 1970, by the store's clock. */
  readonly modified: number;
}

export interface PutOptions {
  readonly signal: AbortSignal;
  /** Refuse an object of this name: only for stores that can (see `Abilities.refusesExisting`), and up to 64 MiB. */
  readonly onlyNew?: boolean;
  /** Milliseconds since 1970: nobody can delete the object until then, not even its owner. Only for stores that can. */
  readonly lockUntil?: number;
  /** In governance mode, users with a special permission can delete a locked object; compliance by default. */
  readonly lockMode?: 'compliance' | 'governance';
}

/** What a store was seen to do when it was asked; nothing is taken from its promises. */
export interface Abilities {
  /** `put` with `onlyNew` fails for an object that exists, also if two do it at once. */
  readonly refusesExisting: boolean;
  /** Deleted and overwritten objects are kept until their versions are deleted, which `delete` does. */
  readonly keepsVersions: boolean;
  /** Objects can be locked: a lock was written and read back. */
  readonly locks: boolean;
}

export interface GetOptions {
  readonly signal: AbortSignal;
  /** One that `versions` returned; the newest by default. */
  readonly version?: string | undefined;
}

/**
 * Objects under names, each written once and complete. Names are of lower-case letters, digits, hyphens and slashes, and
 * in a bucket of dots as well, if none begins a part of the name. What a store lists under other names is not ours, and
 * left out.
 */
export interface ObjectStore {
  /** For people, never with secrets: `s3://bucket/prefix` or the folder. */
  readonly label: string;

  /**
   * Stores an object. Nothing is visible under the name before everything is there, and nothing is left if it fails.
   * An object of the name is replaced, unless `onlyNew` is set.
   *
   * @param length of all bytes
   * @param bytes read once; a request that is repeated sends the same bytes again from memory
   * @throws object-length if there are more or fewer bytes; object-exists; store-unable; object-lock-dropped (the
   *   object is stored then, without the lock)
   */
  put(
    name: string,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    options: PutOptions,
  ): Promise<void>;

  /**
   * Yields the bytes of an object. A connection that breaks is continued where it stopped, and only with the same
   * object.
   *
   * @throws object-missing; object-changed
   */
  get(name: string, options: GetOptions): AsyncIterable<Buffer>;

  /**
   * Locks an object until a time, in compliance mode, with all its versions that hold bytes; what is locked as long
   * already stays as it is. A lock cannot be shortened.
   *
   * @param until milliseconds since 1970
   * @throws store-unable; object-missing; object-lock-dropped
   */
  lock(name: string, until: number, signal: AbortSignal): Promise<void>;

  /** Returns the versions of an object that hold bytes, the newest first; none where the store keeps no versions. */
  versions(name: string, signal: AbortSignal): Promise<readonly string[]>;

  /** Returns the facts of an object, or undefined. */
  head(name: string, signal: AbortSignal): Promise<ObjectFact | undefined>;

  /** Yields all objects whose names begin with a text, in order of their names (by bytes). */
  list(prefix: string, signal: AbortSignal): AsyncIterable<ObjectFact>;

  /**
   * Deletes an object with all its versions. Does nothing if it is missing.
   *
   * @throws object-locked
   */
  delete(name: string, signal: AbortSignal): Promise<void>;

  /** Returns what the store can do; tried out at the first call. */
  abilities(signal: AbortSignal): Promise<Abilities>;

  /** Lets go of connections. */
  close(): Promise<void>;
}

/** An upload in parts that was begun. */
export interface Upload {
  readonly name: string;
  /** The server's own name for it. */
  readonly uploadId: string;
}

/**
 * A store whose uploads are separate acts, for objects that have to be known elsewhere before the first byte is sent. The
 * object is there once the upload is completed. An upload that was given up cannot be completed.
 */
export interface UploadingStore extends ObjectStore {
  /**
   * Begins an upload, also of a small object.
   *
   * @param metadata kept with the object, by names of lower-case letters and hyphens
   */
  beginUpload(
    name: string,
    metadata: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Upload>;

  /**
   * Sends all bytes of an upload, and returns what the server calls their parts.
   *
   * @param length of all bytes: at least one
   * @throws object-length
   */
  sendParts(
    upload: Upload,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<readonly string[]>;

  /**
   * Asks for the object to be made of its parts. Resolves as well if an answer was lost and the server no longer knows the
   * upload, so it is no evidence that the object is there.
   */
  completeUpload(upload: Upload, parts: readonly string[], signal: AbortSignal): Promise<void>;

  /** Gives an upload up, with its parts. Does nothing if the server does not know it. */
  giveUpUpload(upload: Upload, signal: AbortSignal): Promise<void>;
}
