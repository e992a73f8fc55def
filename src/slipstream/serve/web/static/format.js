// Numbers as people read them.

const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function bytes(count) {
  let value = count;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toPrecision(3)} ${UNITS[unit]}`;
}

export function milliseconds(ms) {
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return seconds(ms / 1000);
}

export function seconds(s) {
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function count(value) {
  return Math.round(value).toLocaleString("en");
}

export function rate(value) {
  return value < 10 ? value.toFixed(1) : count(value);
}

export function percent(part, whole) {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–";
}

const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

export function clock(time, fine = false) {
  return new Date(time).toLocaleTimeString([], fine ? { ...CLOCK, second: "2-digit" } : CLOCK);
}

export function when(time) {
  const date = new Date(time);
  const today = date.toDateString() === new Date().toDateString();
  return today
    ? clock(time)
    : date.toLocaleDateString([], { month: "short", day: "numeric" });
}
