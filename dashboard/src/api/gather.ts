/** How long a read waits for others: long enough for all reads of a page, and for timers that are due together. */
const momentMs = 8
const mostTogether = 32

type Asked = { url: string; init: RequestInit; resolve: (answer: Response | Promise<Response>) => void }

let asked: Asked[] = []

/** Reads with an id, streams and later pages of a list are sent separately. */
const isGathered = ({ pathname, searchParams }: URL, { method }: RequestInit): boolean =>
  method === 'GET' && /^(\/[a-z_]+)+$/.test(pathname) && !pathname.endsWith('/stream') && !searchParams.has('before_id')

/** Like `fetch`, but reads made within a short time share one request. */
export function fetchTogether(url: string, init: RequestInit): Promise<Response> {
  if (!isGathered(new URL(url), init)) return fetch(url, init)
  return new Promise((resolve, reject) => {
    init.signal?.addEventListener('abort', () => reject(init.signal?.reason), { once: true })
    if (asked.length === 0) setTimeout(send, momentMs)
    asked.push({ url, init, resolve })
  })
}

function send(): void {
  const reads = asked.filter(({ init }) => !init.signal?.aborted)
  asked = []
  for (let from = 0; from < reads.length; from += mostTogether)
    void sendTogether(reads.slice(from, from + mostTogether))
}

async function sendTogether(reads: readonly Asked[]): Promise<void> {
  const left = new Set(reads)
  if (reads.length > 1) {
    // After a broken connection, a refusing proxy, or with an older server, the remaining reads are sent separately.
    for await (const { at, status, headers, body } of answersTo(reads)) {
      const read = reads[at]
      if (read && left.delete(read)) read.resolve(new Response(body, { status, headers }))
    }
  }
  for (const { url, init, resolve } of left) resolve(fetch(url, init))
}

type Answer = { at: number; status: number; headers: Record<string, string>; body: string }

async function* answersTo(reads: readonly Asked[]): AsyncGenerator<Answer> {
  const headers = new Headers(reads[0]?.init.headers)
  headers.set('Accept', ndjson)
  const paths = reads.map(({ url }) => encodeURIComponent(url.slice(location.origin.length)).replaceAll('%2F', '/'))
  try {
    const { body, headers: its } = await fetch(`/dashboard/reads?of=${paths.join('&of=')}`, {
      headers,
      redirect: 'manual',
    })
    if (body && its.get('Content-Type')?.startsWith(ndjson)) yield* answersIn(body)
  } catch {
    // The remaining reads will report the error.
  }
}
const ndjson = 'application/x-ndjson'

/** Two lines per response: head and body. */
async function* answersIn(stream: ReadableStream<Uint8Array>): AsyncGenerator<Answer> {
  const reader = stream.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader()
  let text = ''
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (text + part.value).split('\n')
    const whole = 2 * Math.floor((lines.length - 1) / 2)
    for (let line = 0; line < whole; line += 2) yield { ...JSON.parse(lines[line] ?? ''), body: lines[line + 1] ?? '' }
    text = lines.slice(whole).join('\n')
  }
}
