import { createConnection } from 'node:net'
import type { Command } from '../maps/claims.ts'
import type { MapName } from '../maps/entries.ts'
import { mapFile, type ProxySettings } from '../settings.ts'

/** HAProxy did not execute a command; `answer` is its response. */
export class RuntimeError extends Error {}

/**
 * Below one buffer of HAProxy (32 KB by our configuration) with room for its own notes: a longer command gets no
 * answer at all.
 */
const commandBytes = 28_000
const lineBytes = 8_000
const answerTimeoutMs = 30_000

/** In a command a backslash, a semicolon and a space would be HAProxy's own. */
const escaped = (text: string): string => text.replaceAll(/[\\; ]/g, '\\$&')

/**
 * Sends commands on one connection, each when the answer to the one before is there: HAProxy's prompt ends an answer.
 * Callers may stop iterating after an unexpected answer.
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
      // In one write with the first command, which saves a round trip.
      socket.write(isPrompting ? `${command}\n` : `prompt\n${command}\n`)
      if (!isPrompting) await nextAnswer()
      isPrompting = true
      // Between the lines of a payload it prompts with `+`.
      yield { command, answer: (await nextAnswer()).replace(/^(\+ )+/, '').trim() }
    }
  } finally {
    socket.destroy()
  }
}

/** One command on its own connection, without a prompt: works for the master's socket too, whose prompt differs. */
export async function ask(socketPath: string, command: string): Promise<string> {
  let answer = ''
  for await (const text of answerTo(socketPath, command)) answer += text
  return answer.trim()
}

function answerTo(socketPath: string, command: string): AsyncIterable<string> {
  const socket = createConnection(socketPath)
  socket.setEncoding('latin1')
  socket.setTimeout(answerTimeoutMs, () => socket.destroy(new RuntimeError('HAProxy did not answer in time')))
  // The master's socket ends a relayed answer only when it knows that no other command comes.
  socket.end(`${command}\n`)
  return socket
}

/** For commands that say nothing when they succeed. */
export async function tell(socketPath: string, commands: Iterable<string>): Promise<void> {
  for await (const { command, answer } of converse(socketPath, commands)) expectSilence(command, answer)
}

function expectSilence(command: string, answer: string): void {
  if (answer) throw new RuntimeError(`HAProxy answered ${answer.slice(0, 200)} to ${command.slice(0, 200)}`)
}

/**
 * Changes in the order given and then look-ups, many to a line. HAProxy executes a line in one go, and requests on the same
 * thread wait meanwhile: 8,000 bytes are some 50 changes, and take it about half a millisecond. Between two lines it serves
 * traffic.
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

/** A map of ranges is asked about an address: the first one of a range, which is in no narrower one. */
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

/** HAProxy finds the key in a tree, so that a change costs the same however large the map is. See docs/adr/0047. */
function changeCommand(settings: ProxySettings, command: Command): string {
  const file = mapFile(settings, command.map)
  // Keys come from entries.ts and begin with an id, a host name, an address or `*`: never with `-`, `#` or `@`.
  if (command.kind === 'del') return `del map ${file} ${escaped(command.key)}`
  return `${command.kind} map ${file} ${escaped(command.key)} ${escaped(command.value)}`
}

/** A key of a map, with or without an entry. */
export type Place = { readonly map: MapName; readonly key: string }

/** The maps of a running HAProxy. Passed in, so that a simulation can be it. */
export type MapRuntime = {
  /** In this order, with traffic in between. Resolves to what requests then find at `places`, in the same order. */
  change: (commands: Iterable<Command>, places?: readonly Place[]) => Promise<(string | undefined)[]>
  /** What requests find at each of these places, in the same order. */
  lookUp: (places: readonly Place[]) => Promise<(string | undefined)[]>
  /** Current entries, in no particular order. A key may appear twice if another program wrote to the map. */
  entries: (map: MapName) => AsyncIterable<[key: string, value: string]>
  /** How many entries the map has. */
  size: (map: MapName) => Promise<number>
}

/** On HAProxy's socket. */
export const mapRuntime = (settings: ProxySettings): MapRuntime => ({
  change: (commands, places = []) => changeAndLookUp(settings, commands, places),
  lookUp: (places) => changeAndLookUp(settings, [], places),
  entries: (map) => entriesInForce(settings, map),
  size: (map) => sizeInForce(settings, map),
})

/** A small change and its look-ups are one line: another connection or round trip would take longer than they do. */
async function changeAndLookUp(
  settings: ProxySettings,
  changes: Iterable<Command>,
  places: readonly Place[],
): Promise<(string | undefined)[]> {
  const found: (string | undefined)[] = []
  for await (const { command, answer } of converse(settings.runtimeSocket, changeLines(settings, changes, places))) {
    // Look-ups come last and answer in turn, each with an empty line at its end. A change says nothing.
    if (!answer.startsWith(lookUpAnswer)) expectSilence(command, answer)
    else for (const each of answer.split('\n\n')) found.push(foundAt(places[found.length], each))
  }
  if (found.length !== places.length)
    throw new RuntimeError(`HAProxy answered ${found.length} of ${places.length} look-ups`)
  return found
}
const lookUpAnswer = 'type='

/**
 * `type=beg, case=sensitive, found=yes, idx=tree, key="…", value="…", type="str"`, a line for each way in which rules search
 * the map. Where a prefix of the key is found, the key itself is not there.
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

/** Current entries of a map, in no particular order. A key may appear twice if another program wrote to it. */
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

/** One by one as they come: a million of them would be a text of 200 MB. */
async function* lines(socketPath: string, command: string): AsyncGenerator<string> {
  let rest = ''
  for await (const text of answerTo(socketPath, command)) {
    const complete = `${rest}${text}`.split('\n')
    rest = complete.pop() ?? ''
    yield* complete
  }
  if (rest) yield rest
}
