import { useState } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { type ApiKey, nameOf } from './key.tsx'

const maxNamed = 10

type Props = {
  view: 'expired' | 'unused'
  /** Filtered keys that the caller may delete. */
  keys: readonly ApiKey[]
  /** Reads them again, because they may have been used since. */
  readAgain: () => unknown
}

/** Explains the filter and deletes all matches in one step. */
export function DeleteAll({ view, keys, readAgain }: Props) {
  const [isOpen, setOpen] = useState(false)
  const what = keys.length === 1 ? 'key' : `${keys.length} keys`
  return (
    <section className="selection" aria-label="What can be deleted">
      <span>
        {view === 'unused'
          ? 'Created more than 30 days ago, and not used since then or for as long.'
          : 'No call with these is accepted any more.'}
      </span>
      {keys.length > 0 && (
        <Button
          isSmall
          onPress={() => {
            readAgain()
            setOpen(true)
          }}
        >
          {keys.length === 1 ? 'Delete this key' : `Delete these ${what}`}
        </Button>
      )}
      {isOpen && <DeleteKeys keys={keys} what={what} onClose={() => setOpen(false)} />}
    </section>
  )
}

function DeleteKeys({ keys, what, onClose }: Pick<Props, 'keys'> & { what: string; onClose: () => void }) {
  const refresh = useRefresh()
  return (
    <Confirm
      title={`Delete ${what}?`}
      action={`Delete ${what}`}
      act={async () => {
        // One by one: if a delete fails, the remaining keys stay and the error explains why.
        for (const { id } of keys)
          await answerOf(api.DELETE('/api_keys/{id}', { params: { path: { id }, query: {} } })).catch(async (error) => {
            await refresh('/api_keys')
            throw error
          })
      }}
      onDone={() => {
        onClose()
        return refresh('/api_keys')
      }}
      onClose={onClose}
    >
      <p>They stop working immediately, everywhere. This cannot be undone. Keys that were created with them stay.</p>
      <ul>
        {keys.slice(0, maxNamed).map((key) => (
          <li key={key.id}>{nameOf(key)}</li>
        ))}
        {keys.length > maxNamed && <li>and {keys.length - maxNamed} more</li>}
      </ul>
    </Confirm>
  )
}
