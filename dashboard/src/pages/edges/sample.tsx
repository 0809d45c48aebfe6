import { useState } from 'react'
import { Field } from '../../ui/field.tsx'

type Props = {
  add: Readonly<Record<string, string>>
  remove: readonly string[]
  enabled: boolean
  host: string | undefined
  path: string
}
type Header = readonly [name: string, value: string]

/** Rewrites a request as the edge does: removes headers first, then sets them; a set header replaces every copy. */
export function rewritten(
  headers: readonly Header[],
  add: Readonly<Record<string, string>>,
  remove: readonly string[],
): Header[] {
  const gone = new Set([...remove, ...Object.keys(add)].map((name) => name.toLowerCase()))
  return [...headers.filter(([name]) => !gone.has(name.toLowerCase())), ...Object.entries(add)]
}

export function Sample({ add, remove, enabled, host = 'app.example:443', path }: Props) {
  const [text, setText] = useState(
    [
      `Host: ${host.replace(/:443$/, '')}`,
      'User-Agent: curl/8.9',
      'Accept: */*',
      'Cookie: session=1',
      ...exampleOf(remove),
    ].join('\n'),
  )
  const before = text.split('\n').flatMap((line): Header[] => {
    const colon = line.indexOf(':')
    return colon < 1 ? [] : [[line.slice(0, colon).trim(), line.slice(colon + 1).trim()]]
  })
  const after = enabled ? rewritten(before, add, remove) : before
  const kept = new Set(after.map(textOf))
  const sent = new Set(before.map(textOf))
  return (
    <div className="sample">
      <Field
        label="Sample request"
        mono
        rows={7}
        value={text}
        onChange={setText}
        hint="Edit it to try other headers."
      />
      <div>
        <p className="label">Request to the backend</p>
        <pre className="code diff">
          <span className="soft">{`GET ${path}\n`}</span>
          {before
            .filter((header) => !kept.has(textOf(header)))
            .map((header) => (
              <del key={textOf(header)}>{`− ${textOf(header)}\n`}</del>
            ))}
          {after.map((header) =>
            sent.has(textOf(header)) ? (
              <span key={textOf(header)}>{`  ${textOf(header)}\n`}</span>
            ) : (
              <ins key={textOf(header)}>{`+ ${textOf(header)}\n`}</ins>
            ),
          )}
        </pre>
        <p className="hint">The edge also sets X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto.</p>
      </div>
    </div>
  )
}

const textOf = ([name, value]: Header): string => `${name}: ${value}`
const exampleOf = (remove: readonly string[]): string[] =>
  remove.filter((name) => name.toLowerCase() !== 'cookie').map((name) => `${name}: from the client`)
