/** Writes TNEF by hand (MS-OXTNEF). */

export function tnef(...attributes: readonly Buffer[]): Buffer {
  return Buffer.concat([Buffer.from('789f3e220100', 'hex'), ...attributes]);
}

/** @param level 1 for the message, 2 for an attachment */
export function attribute(id: number, value: Buffer, level = 1): Buffer {
  const head = Buffer.alloc(9);
  head.writeUInt8(level, 0);
  head.writeUInt16LE(id, 1);
  head.writeUInt16LE(6, 3);
  head.writeUInt32LE(value.length, 5);
  const checksum = Buffer.alloc(2);
  checksum.writeUInt16LE(value.reduce((sum, byte) => (sum + byte) & 0xffff, 0));
  return Buffer.concat([head, value, checksum]);
}

/** A property of a type whose values have lengths. */
export function property(id: number, type: number, value: Buffer): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16LE(type, 0);
  head.writeUInt16LE(id, 2);
  head.writeUInt32LE(1, 4);
  head.writeUInt32LE(value.length, 8);
  return Buffer.concat([head, value, Buffer.alloc((4 - (value.length % 4)) % 4)]);
}
