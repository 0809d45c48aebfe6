import { useQuery } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { Link } from 'react-router'
import { queries } from './api/queries.ts'
import { Field } from './ui/field.tsx'
import { useFormField } from './ui/form_fields.tsx'
import { Loaded } from './ui/loading.tsx'

type Props = { name: string; chosen: readonly string[]; onChange: (ids: string[]) => void }

/** Chooses policies of the account. Their rules are evaluated together, so order does not matter. */
export function PolicyPicker({ name, chosen, onChange }: Props) {
  const policies = useQuery(queries.policies())
  const [search, setSearch] = useState('')
  const id = useId()
  const errorId = `${id}-error`
  const { error, clearError } = useFormField(name, 'IP policies')
  return (
    <fieldset className="picker" aria-describedby={`${id}-hint`}>
      <legend className="label">IP policies</legend>
      <p id={`${id}-hint`} className="hint">
        Their rules are evaluated together. A deny in any policy refuses; otherwise an allow in any policy is needed.
      </p>
      <Loaded query={policies} lines={3}>
        {(all) => (
          <>
            {all.length > 8 && <Field label="Search policies" type="search" value={search} onChange={setSearch} />}
            {all.length === 0 && (
              <p className="soft">
                No policies yet. <Link to="/policies">Create one</Link> first.
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
                      aria-invalid={error ? true : undefined}
                      aria-describedby={error ? errorId : undefined}
                      onChange={({ target }) => {
                        clearError()
                        onChange(target.checked ? [...chosen, id] : chosen.filter((other) => other !== id))
                      }}
                    />
                    <span>{description ?? <span className="mono">{id}</span>}</span>
                  </label>
                ))}
            </div>
          </>
        )}
      </Loaded>
      {error && (
        <p id={errorId} className="field-error">
          {error}
        </p>
      )}
    </fieldset>
  )
}
