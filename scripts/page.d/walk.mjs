// Walks the live page through the DevTools protocol: walk.mjs SOCKET PAGE DIRECTORY. Called by scripts/page.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";

const [socket, page, directory] = process.argv.slice(2);
const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));
const fail = what => { throw new Error(what); };

// The browser.
const connection = new WebSocket(socket);
await new Promise((opened, failed) => { connection.onopen = opened; connection.onerror = failed; });
const waiting = new Map(), failures = [];
let last = 0, session;
connection.onmessage = ({ data }) => {
  const { id, result, error, method, params } = JSON.parse(data);
  if (method === "Runtime.exceptionThrown") failures.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
  if (method === "Log.entryAdded" && params.entry.level === "error") failures.push(params.entry.text);
  if (id) waiting.get(id)?.(error ? { error } : result);
};
const ask = async (method, params = {}) => {
  const id = ++last;
  connection.send(JSON.stringify({ id, method, params, sessionId: session }));
  const answer = await new Promise(done => waiting.set(id, done));
  if (answer.error) fail(`${method}: ${answer.error.message}`);
  return answer;
};
const { targetId } = await ask("Target.createTarget", { url: "about:blank" });
session = (await ask("Target.attachToTarget", { targetId, flatten: true })).sessionId;
for (const domain of ["Page", "Runtime", "Log"]) await ask(domain + ".enable");
const run = async text => {
  const { result, exceptionDetails } = await ask("Runtime.evaluate", { expression: text, returnByValue: true, awaitPromise: true });
  if (exceptionDetails) fail(`${text}: ${exceptionDetails.exception?.description}`);
  return result.value;
};
const until = async (what, text) => {
  for (let attempt = 0; attempt < 600; attempt++) {
    // The page may not be there yet.
    const value = await run(text).catch(() => null);
    if (value) return value;
    await pause(100);
  }
  fail(`${what}: it does not come; the page says: ${await run("document.body.innerText.slice(0, 2000)")}`);
};
const view = async (width, scheme) => {
  await ask("Emulation.setDeviceMetricsOverride", { width, height: width < 500 ? 844 : 900, deviceScaleFactor: 1, mobile: width < 500 });
  await ask("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  await pause(300);
};

// Programs of PostgreSQL.
const program = (name, ...args) => {
  const child = spawn(name, args, { stdio: ["pipe", "pipe", "pipe"] });
  child.said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", data => { child.said += data; });
  child.ended = new Promise(done => child.on("close", done));
  return child;
};
const sql = async text => {
  const child = program("psql", "-XAtqc", text);
  if (await child.ended) fail(child.said);
  return child.said.trim();
};

// A table of the page, by its title: an array of rows of texts.
const table = title => `(() => {
  const found = [...document.querySelectorAll("table")].find(one => one.caption?.textContent === ${JSON.stringify(title)});
  return found ? [...found.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent)) : [];
})()`;

await view(1280, "light");
await ask("Page.navigate", { url: page });
await until("the version", `document.getElementById("about").textContent.includes("Ermine")`);

// A load, until the charts have lines.
const load = program("pgbench", "-n", "-c", "4", "-T", "12", "--max-tries=100");
await until("lines in every chart", `[...document.querySelectorAll("svg")].every(svg => (svg.querySelector("path")?.getAttribute("d").match(/L/g) ?? []).length > 3)`);
await until("transactions", `parseFloat(document.querySelector(".tile .value").textContent) > 0`);

// A conflict: two transactions write the same row from one state.
const writer = program("psql", "-Xq");
writer.stdin.write("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT bbalance FROM pgbench_branches WHERE bid = 1;\n");
await pause(300);
await sql("CREATE TABLE seats (id int PRIMARY KEY, taken boolean); INSERT INTO seats VALUES (7, false)");
const late = program("psql", "-Xq");
late.stdin.write("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM seats;\n");
for (let attempt = 0; attempt < 600 && !late.said.includes("1 row"); attempt++) await pause(100);
await until("the transaction that will lose", `${table("Sessions")}.filter(row => row[3] === "idle in transaction").length >= 2`);
await sql("UPDATE seats SET taken = true WHERE id = 7");
late.stdin.end("UPDATE seats SET taken = true WHERE id = 7;\n");
await late.ended;
if (!late.said.includes("could not serialize")) fail(`no conflict: ${late.said}`);
const conflict = await until("the conflict", `${table("Hottest conflicts")}.find(row => row[0] === "seats")`);
if (!conflict[1].includes("7") || !conflict[5].length) fail(`a conflict without its row or story: ${conflict}`);
writer.stdin.end("ROLLBACK;\n");
await writer.ended;

// A statement is cancelled.
const sleeper = program("psql", "-Xc", "SELECT pg_sleep(600)");
await until("the button", `[...document.querySelectorAll("[data-pid]")].find(button => button.closest("tr").textContent.includes("pg_sleep"))`);
await run(`[...document.querySelectorAll("[data-pid]")].find(button => button.closest("tr").textContent.includes("pg_sleep")).click()`);
await sleeper.ended;
if (!sleeper.said.includes("canceling statement due to user request")) fail(`not cancelled: ${sleeper.said}`);

// The arrow keys move through time.
await run(`document.querySelector("svg").focus()`);
for (const type of ["keyDown", "keyUp"]) await ask("Input.dispatchKeyEvent", { type, key: "ArrowLeft", code: "ArrowLeft", windowsVirtualKeyCode: 37 });
if (await run(`[...document.querySelectorAll("svg text")].some(text => text.textContent === "now")`)) fail("the arrow keys do nothing");
await run(`document.activeElement.blur()`);

// The numbers are those of the views.
await load.ended;
const shown = async (title, name) => (await run(table(title))).find(row => row[0] === name);
const written = await sql("SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'pgbench_history'");
const human = await run(`number(${written})`);
await until("the rows of pgbench", `${table("Tables")}.some(row => row[0] === "public.pgbench_history" && row[2] === ${JSON.stringify(human)})`);
const conflicts = await sql("SELECT coalesce(sum(conflicts), 0) FROM ermine_stat_conflicts");
const sum = (await run(table("Lost conflicts"))).map(row => row[3]);
if (conflicts < 10000 && sum.reduce((all, one) => all + Number(one), 0) !== Number(conflicts)) fail(`${sum} conflicts, and not ${conflicts}`);
if (!(await shown("Tables", "public.seats"))) fail("a table is missing");

for (const width of [1280, 390]) {
  for (const scheme of ["light", "dark"]) {
    await view(width, scheme);
    const [all, own] = await run("[document.documentElement.scrollWidth, innerWidth]");
    if (all > own) fail(`at ${width} pixels, the page is ${all} wide`);
    const hidden = await run(`[...document.querySelectorAll("td.text, #tables section:nth-last-child(-n+2) td")].filter(cell => cell.getBoundingClientRect().right > innerWidth).length`);
    if (hidden) fail(`at ${width} pixels, ${hidden} texts are outside of the screen`);
    const { data } = await ask("Page.captureScreenshot", { captureBeyondViewport: true });
    writeFileSync(`${directory}/${width}-${scheme}.png`, Buffer.from(data, "base64"));
  }
}
// A name and a password in the address are those of the page's requests, too.
await ask("Page.navigate", { url: page.replace("//", "//me:secret@") });
await until("the page, with a name in its address", `document.getElementById("about").textContent.includes("Ermine")`);
if (failures.length) fail(failures.join("\n"));
console.log(`the page shows a load, a conflict (${conflict[5]}) and a cancelled statement; screenshots are in ${directory}`);
await ask("Browser.close").catch(() => {});
process.exit(0);
