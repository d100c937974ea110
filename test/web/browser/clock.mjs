// Sets the clock of the process that imports it to MAILKEEP_TEST_CLOCK (milliseconds since the epoch), from where it
// runs at its usual speed.
const { now } = Date;
const offset = Number(process.env.MAILKEEP_TEST_CLOCK) - now();
const Real = Date;
globalThis.Date = class extends Real {
  constructor(...parts) {
    super(...(parts.length === 0 ? [now() + offset] : parts));
  }
  static now() {
    return now() + offset;
  }
};
