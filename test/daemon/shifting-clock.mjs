/** For a process of a test: the wall clock of a machine that slept, told by how many milliseconds. */
const now = Date.now;
let slept = 0;
Date.now = () => now() + slept;
process.on('message', ({ sleptMs }) => {
  slept += sleptMs;
});
// The parent may keep the channel; it must not keep the process.
process.channel?.unref();
