import { useQuery } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { queries } from './api/queries.ts'
import { Link } from './router.tsx'
import { Field } from './ui/field.tsx'
import { Loaded } from './ui/loading.tsx'

type Props = { chosen: readonly string[]; onChange: (ids: string[]) => void }

/** Some of the account's policies. Their rules count together, so that their order does not matter. */
export function PolicyPicker({ chosen, onChange }: Props) {
  const policies = useQuery(queries.policies())
  const [search, setSearch] = useState('')
  const id = useId()
  return (
    <fieldset className="picker" aria-describedby={`${id}-hint`}>
      <legend className="label">IP policies</legend>
      <p id={`${id}-hint`} className="hint">
        Their rules count together: any deny refuses, else any allow lets through, else it is refused.
      </p>
      <Loaded query={policies} lines={3}>
        {(all) => (
          <>
            {all.length > 8 && <Field label="Find a policy" type="search" value={search} onChange={setSearch} />}
            {all.length === 0 && (
              <p className="soft">
                There is none yet. <Link to="/policies">Create one</Link> first.
              </p>
            )}
            <div className="picker-list">
              {all
                .filter(({ id, description = '' }) =>
                  `${description} ${id}`.toLowerCase().includes(search.toLowerCase()),
                )
                .map(({ id, description }) => (
                  <label key={id} className="check">
                    <input
                      type="checkbox"
                      checked={chosen.includes(id)}
                      onChange={({ target }) =>
                        onChange(target.checked ? [...chosen, id] : chosen.filter((other) => other !== id))
                      }
                    />
                    <span>{description ?? <span className="mono">{id}</span>}</span>
                  </label>
                ))}
            </div>
          </>
        )}
      </Loaded>
    </fieldset>
  )
}
