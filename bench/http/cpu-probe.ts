process.on('message', (message) => {
  if (message === 'cpu') process.send?.(process.cpuUsage());
});
