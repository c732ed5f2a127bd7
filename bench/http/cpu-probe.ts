// Loaded into what is measured by the benchmark (`node --import`): tells what processor time it has taken.
process.on('message', (message) => {
  if (message === 'cpu') process.send?.(process.cpuUsage());
});
