import { FieldError, Input, Label, Text, TextArea, TextField, type TextFieldProps } from 'react-aria-components'

type Props = Omit<TextFieldProps, 'children' | 'className'> & {
  label: string
  hint?: string
  error?: string
  rows?: number
  mono?: boolean
  placeholder?: string
}

export function Field({ label, hint, error, rows, mono, placeholder, ...rest }: Props) {
  const look = mono ? 'input mono' : 'input'
  return (
    <TextField className="field" isInvalid={error !== undefined} {...rest}>
      <Label>{label}</Label>
      {rows ? (
        <TextArea className={look} rows={rows} placeholder={placeholder} spellCheck={!mono} />
      ) : (
        <Input className={look} placeholder={placeholder} spellCheck={!mono} autoCapitalize="off" autoCorrect="off" />
      )}
      {hint && (
        <Text slot="description" className="hint">
          {hint}
        </Text>
      )}
      <FieldError className="field-error">{error}</FieldError>
    </TextField>
  )
}
