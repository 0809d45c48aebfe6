import { createConnection } from 'node:net'
import type { Command } from '../maps/claims.ts'
import type { MapName } from '../maps/entries.ts'
import { mapFile, type ProxySettings } from '../settings.ts'

/** HAProxy did not execute a command; `answer` is its reply. */
export class RuntimeError extends Error {}

/**
 * Below one HAProxy buffer (32 KB in our configuration), with room for HAProxy's own data: a longer command gets no
 * reply at all.
 */
const commandBytes = 28_000
const lineBytes = 8_000
const answerTimeoutMs = 30_000

/** HAProxy would interpret an unescaped backslash, semicolon or space. */
const escaped = (text: string): string => text.replaceAll(/[\\; ]/g, '\\$&')

/**
 * Sends commands over one connection, each after the reply to the previous one. HAProxy's prompt ends a reply. Callers
 * may stop iterating after an unexpected reply.
 */
export async function* converse(
  socketPath: string,
  commands: Iterable<string>,
): AsyncGenerator<{ command: string; answer: string }> {
  const socket = createConnection(socketPath)
  socket.setEncoding('latin1')
  socket.setTimeout(answerTimeoutMs, () => socket.destroy(new RuntimeError('HAProxy did not answer in time')))
  try {
    const received = socket[Symbol.asyncIterator]()
    let text = ''
    const nextAnswer = async (): Promise<string> => {
      for (;;) {
        const end = text.indexOf('\n> ')
        if (end >= 0) {
          const answer = text.slice(0, end)
          text = text.slice(end + 3)
          return answer
        }
        const { value, done } = await received.next()
        if (done) throw new RuntimeError(`HAProxy ended the connection after ${JSON.stringify(text.slice(0, 200))}`)
        text += value
      }
    }
    let isPrompting = false
    for (const command of commands) {
      if (Buffer.byteLength(command) > commandBytes) throw new RuntimeError('a command is too long for HAProxy')
      // Sent together with the first command, which saves a round trip.
      socket.write(isPrompting ? `${command}\n` : `prompt\n${command}\n`)
      if (!isPrompting) await nextAnswer()
      isPrompting = true
      // Between the lines of a payload, HAProxy prompts with `+`.
      yield { command, answer: (await nextAnswer()).replace(/^(\+ )+/, '').trim() }
    }
  } finally {
    socket.destroy()
  }
}

/**
 * Sends one command on its own connection, without a prompt. Also works for the master's socket, whose prompt differs.
 */
export async function ask(socketPath: string, command: string): Promise<string> {
  let answer = ''
  for await (const text of answerTo(socketPath, command)) answer += text
  return answer.trim()
}

function answerTo(socketPath: string, command: string): AsyncIterable<string> {
  const socket = createConnection(socketPath)
  socket.setEncoding('latin1')
  socket.setTimeout(answerTimeoutMs, () => socket.destroy(new RuntimeError('HAProxy did not answer in time')))
  // The master's socket ends a relayed reply only once it knows that no other command follows.
  socket.end(`${command}\n`)
  return socket
}

/** For commands that print nothing on success. */
export async function tell(socketPath: string, commands: Iterable<string>): Promise<void> {
  for await (const { command, answer } of converse(socketPath, commands)) expectSilence(command, answer)
}

function expectSilence(command: string, answer: string): void {
  if (answer) throw new RuntimeError(`HAProxy answered ${answer.slice(0, 200)} to ${command.slice(0, 200)}`)
}

/**
 * Joins changes, in the given order, and then look-ups into lines. HAProxy executes a line without a break while the
 * thread's requests wait: 8,000 bytes are some 50 changes and take about half a millisecond. It serves traffic between
 * two lines.
 */
export function* changeLines(
  settings: ProxySettings,
  changes: Iterable<Command>,
  places: readonly Place[] = [],
): Generator<string> {
  function* commands(): Generator<string> {
    for (const change of changes) yield changeCommand(settings, change)
    for (const { map, key } of places) yield `get map ${mapFile(settings, map)} ${escaped(lookedUpAs(map, key))}`
  }
  yield* joinedLines(commands())
}

/** A map of ranges is searched by address. Uses the first address of the range, which no narrower entry contains. */
const lookedUpAs = (map: MapName, key: string): string => (map === 'emergency' ? key.replace(/\/\d+$/, '') : key)

export function* joinedLines(commands: Iterable<string>): Generator<string> {
  let line = ''
  for (const text of commands) {
    if (line && line.length + text.length >= lineBytes) {
      yield line
      line = ''
    }
    line += line ? `;${text}` : text
  }
  if (line) yield line
}

/** HAProxy finds the key in a tree, so a change costs the same in a map of any size. See docs/adr/0047. */
function changeCommand(settings: ProxySettings, command: Command): string {
  const file = mapFile(settings, command.map)
  // Keys come from entries.ts and begin with an id, a host name, an address or `*`: never with `-`, `#` or `@`.
  if (command.kind === 'del') return `del map ${file} ${escaped(command.key)}`
  return `${command.kind} map ${file} ${escaped(command.key)} ${escaped(command.value)}`
}

/** A key of a map, with or without an entry. */
export type Place = { readonly map: MapName; readonly key: string }

/** The maps of a running HAProxy, passed in so that tests can simulate it. */
export type MapRuntime = {
  /**
   * Executes the commands in order, with traffic in between. Resolves to what requests then find at `places`, in the
   * same order.
   */
  change: (commands: Iterable<Command>, places?: readonly Place[]) => Promise<(string | undefined)[]>
  lookUp: (places: readonly Place[]) => Promise<(string | undefined)[]>
  /** Current entries, in no particular order. A key may appear twice if another program wrote to the map. */
  entries: (map: MapName) => AsyncIterable<[key: string, value: string]>
  size: (map: MapName) => Promise<number>
}

export const mapRuntime = (settings: ProxySettings): MapRuntime => ({
  change: (commands, places = []) => changeAndLookUp(settings, commands, places),
  lookUp: (places) => changeAndLookUp(settings, [], places),
  entries: (map) => entriesInForce(settings, map),
  size: (map) => sizeInForce(settings, map),
})

/**
 * Sends a small change and its look-ups as one line: another connection or round trip would take longer than they do.
 */
async function changeAndLookUp(
  settings: ProxySettings,
  changes: Iterable<Command>,
  places: readonly Place[],
): Promise<(string | undefined)[]> {
  const found: (string | undefined)[] = []
  for await (const { command, answer } of converse(settings.runtimeSocket, changeLines(settings, changes, places))) {
    // Look-ups come last. Each reply ends with an empty line; a change replies nothing.
    if (!answer.startsWith(lookUpAnswer)) expectSilence(command, answer)
    else for (const each of answer.split('\n\n')) found.push(foundAt(places[found.length], each))
  }
  if (found.length !== places.length)
    throw new RuntimeError(`HAProxy answered ${found.length} of ${places.length} look-ups`)
  return found
}
const lookUpAnswer = 'type='

/**
 * `type=beg, case=sensitive, found=yes, idx=tree, key="…", value="…", type="str"`: one line for each match method that
 * rules use on the map. If HAProxy finds only a prefix of the key, the key itself is missing.
 */
function foundAt(place: Place | undefined, answer: string): string | undefined {
  const values = answer.split('\n').map((line) => {
    if (!place || !/^type=\w+, case=\w+, found=(yes|no)/.test(line))
      throw new RuntimeError(`HAProxy answered ${line.slice(0, 200)} to a look-up`)
    const before = `, key="${place.key}", value="`
    const at = line.indexOf(before)
    return at < 0 ? undefined : line.slice(at + before.length, line.lastIndexOf('", type="'))
  })
  if (new Set(values).size > 1) throw new RuntimeError(`HAProxy has two values for ${place?.key} in ${place?.map}`)
  return values[0]
}

/** `0 (/…/route.map) pattern loaded from file … entry_cnt=17` */
async function sizeInForce(settings: ProxySettings, map: MapName): Promise<number> {
  const file = `(${mapFile(settings, map)})`
  const line = (await ask(settings.runtimeSocket, 'show map')).split('\n').find((each) => each.includes(file))
  const [, count] = / entry_cnt=(\d+)$/.exec(line ?? '') ?? []
  if (count === undefined) throw new RuntimeError(`HAProxy does not tell the size of the map ${map}`)
  return Number(count)
}

export async function* entriesInForce(
  settings: ProxySettings,
  map: MapName,
): AsyncGenerator<[key: string, value: string]> {
  const file = mapFile(settings, map)
  for await (const line of lines(settings.runtimeSocket, `show map ${file}`)) {
    if (line === '') continue
    // `0x55d0c0ffee00 <key> <value>`
    const [key, value] = [line.indexOf(' ') + 1, line.indexOf(' ', line.indexOf(' ') + 1)]
    if (!line.startsWith('0x') || value < 0) throw new RuntimeError(`HAProxy answered ${line} to show map ${file}`)
    yield [line.slice(key, value), line.slice(value + 1)]
  }
}

/** Yields line by line: a million of them would be a text of 200 MB. */
async function* lines(socketPath: string, command: string): AsyncGenerator<string> {
  let rest = ''
  for await (const text of answerTo(socketPath, command)) {
    const complete = `${rest}${text}`.split('\n')
    rest = complete.pop() ?? ''
    yield* complete
  }
  if (rest) yield rest
}
