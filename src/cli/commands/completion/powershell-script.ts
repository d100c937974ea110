/**
 * What was typed goes to the program as words: expressions such as `$(…)` as their text, since the line is only being
 * written. The library's script for PowerShell runs the line through Invoke-Expression, which would obey them. Windows
 * PowerShell and PowerShell before 7.3 drop an empty argument, unless it is written as two quotation marks.
 */
export const POWERSHELL = `# PowerShell completion for mailkeep
Register-ArgumentCompleter -Native -CommandName mailkeep -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $asked = @(
        $commandAst.CommandElements |
            Select-Object -Skip 1 |
            Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
            ForEach-Object {
                if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value }
                else { $_.Extent.Text }
            }
    )
    $word = "$wordToComplete" -replace '["'']', ''
    if ($word -eq '' -and $PSVersionTable.PSVersion -lt [version]'7.3') { $asked += '""' }
    else { $asked += $word }
    mailkeep complete '--' @asked 2>$null | ForEach-Object {
        # Behind a tab stands a description, and in the last line what the other shells obey.
        $value, $description = "$_".Split([char]9, 2)
        if ($value -ne '' -and -not $value.StartsWith(':') -and
            $value.StartsWith($word, [System.StringComparison]::OrdinalIgnoreCase)) {
            # Unquoted, a comma makes an array, and an @ in front names a variable.
            $text = if ($value -match '^@|,') { "'$value'" } else { $value }
            $tip = if ([string]::IsNullOrWhiteSpace($description)) { $value } else { $description }
            [System.Management.Automation.CompletionResult]::new($text, $value, 'ParameterValue', $tip)
        }
    }
}`;
