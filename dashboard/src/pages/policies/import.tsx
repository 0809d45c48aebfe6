import { useEffect, useState } from 'react'
import { DropZone, FileTrigger } from 'react-aria-components'
import { applied, type Draft, type Parsed, parseList, type Rule, replacedBy, withAdded } from '../../rules.ts'
import { Button } from '../../ui/button.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'

type Props = { current: readonly Rule[]; draft: Draft; onDraft: (draft: Draft) => void; onClose: () => void }
/** The limit of a policy. */
const mostRules = 100_000
/** A longer text makes typing slow, so the rest is kept outside the field. */
const shownCharacters = 200_000

export function ImportList({ current, draft, onDraft, onClose }: Props) {
  const [typed, setTyped] = useState('')
  const [file, setFile] = useState<{ name: string; text: string }>()
  const [action, setAction] = useState<Rule['action']>('allow')
  const [mode, setMode] = useState<'add' | 'replace'>('add')
  const [parsed, setParsed] = useState<Parsed & { text: string; action: Rule['action'] }>()
  const text = file?.text ?? typed
  useEffect(() => {
    let isCurrent = true
    const timer = setTimeout(async () => {
      const result = await parseList(text, action)
      if (isCurrent) setParsed({ ...result, text, action })
    }, 150)
    return () => {
      isCurrent = false
      clearTimeout(timer)
    }
  }, [text, action])

  async function take(dropped: File | undefined): Promise<void> {
    if (!dropped) return
    const content = await dropped.text()
    if (content.length <= shownCharacters) {
      setFile(undefined)
      setTyped(content)
    } else setFile({ name: dropped.name, text: content })
  }
  const rules = parsed?.rules ?? []
  // The latest input may not be parsed yet.
  const isParsed = parsed?.text === text && parsed.action === action
  const total = mode === 'replace' ? rules.length : applied(current, withAdded(draft, current, rules)).length
  return (
    <FormDialog
      title="Import list"
      wide
      action={parsed?.faults.length ? 'Import valid lines' : 'Import as draft'}
      isDirty={text.trim() !== ''}
      isReady={rules.length > 0 && total <= mostRules}
      isWaiting={!isParsed}
      save={async () => onDraft(mode === 'replace' ? replacedBy(current, rules) : withAdded(draft, current, rules))}
      onSaved={onClose}
      onClose={onClose}
    >
      <DropZone
        className="drop"
        aria-label="Drop file here"
        onDrop={async ({ items }) => {
          const dropped = items.find((item) => item.kind === 'file')
          if (dropped?.kind === 'file') await take(await dropped.getFile())
          const pasted = items.find((item) => item.kind === 'text')
          if (pasted?.kind === 'text') setTyped(await pasted.getText('text/plain'))
        }}
      >
        {file ? (
          <p className="note plain">
            <span>
              {file.name}, {Math.round(file.text.length / 1024)} KB
            </span>
            <Button kind="quiet" onPress={() => setFile(undefined)}>
              Enter text instead
            </Button>
          </p>
        ) : (
          <Field
            label="One range per line"
            rows={10}
            mono
            autoFocus
            value={typed}
            onChange={setTyped}
            placeholder={'allow 203.0.113.0/24   # office\ndeny 203.0.113.66\n2001:db8::/32'}
            hint="Optionally with allow or deny before the range, and expires=… and # description after it. You can drop a file here."
          />
        )}
        <FileTrigger
          acceptedFileTypes={['text/plain', 'text/csv', '.txt', '.csv', '.list']}
          onSelect={(files) => take(files?.[0])}
        >
          <Button>Choose file…</Button>
        </FileTrigger>
      </DropZone>
      <div className="pair">
        <Choice
          label="Lines without allow or deny"
          value={action}
          onChange={setAction}
          options={[
            { value: 'allow', label: 'Allow' },
            { value: 'deny', label: 'Deny' },
          ]}
        />
        <Choice
          label="Existing rules"
          value={mode}
          onChange={setMode}
          options={[
            { value: 'add', label: 'Keep existing rules' },
            { value: 'replace', label: 'Remove rules not in the list' },
          ]}
        />
      </div>
      <div role="status">
        {text.trim() !== '' && parsed && (
          <p>
            {rules.length} {rules.length === 1 ? 'valid rule' : 'valid rules'}
            {parsed.faults.length > 0 && (
              <strong>
                , {parsed.faults.length} invalid {parsed.faults.length === 1 ? 'line' : 'lines'}
              </strong>
            )}
            .
            {total > mostRules && (
              <strong>
                {' '}
                A policy can have at most {mostRules} rules; this would make {total}.
              </strong>
            )}
          </p>
        )}
        {parsed && parsed.faults.length > 0 && (
          <ul className="faults">
            {parsed.faults.slice(0, 5).map(({ line, text: written, fault }) => (
              <li key={line}>
                Line {line}, <code>{written}</code>: {fault}.
              </li>
            ))}
            {parsed.faults.length > 5 && <li>and {parsed.faults.length - 5} more</li>}
          </ul>
        )}
      </div>
    </FormDialog>
  )
}
