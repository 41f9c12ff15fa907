//! How what has no title is called: the words of its name with capitals. Cube's clients show these titles, so they are Cube's.

/// Words that are small unless they come first.
const SMALL: [&str; 22] = [
    "a", "an", "and", "at", "but", "by", "for", "from", "in", "into", "nor", "of", "off", "on", "onto", "or", "out",
    "over", "so", "the", "to", "with",
];

/// The title that a name has by itself: `totalAmount` and `total_amount` are "Total Amount", `user_id` is "User ID".
pub(super) fn title_of(name: &str) -> String {
    let titled = words(name).into_iter().enumerate().map(|(index, word)| match word.as_str() {
        "id" => "ID".to_owned(),
        "ids" => "IDs".to_owned(),
        small if index > 0 && SMALL.contains(&small) => word,
        _ => {
            let mut letters = word.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
        }
    });
    titled.collect::<Vec<String>>().join(" ")
}

/// The words of a name, in small letters: at underscores, before a capital after a small letter, before the last of several
/// capitals, and after digits. Digits belong to the word before them.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = Vec::new();
    let mut begins = true;
    for (index, letter) in letters.iter().enumerate() {
        let (before, after) = (index.checked_sub(1).map(|before| letters[before]), letters.get(index + 1));
        if *letter == '_' {
            begins = true;
            continue;
        }
        begins |= before.is_some_and(|before| match letter.is_uppercase() {
            true => !before.is_uppercase() || after.is_some_and(|after| after.is_lowercase()),
            false => before.is_ascii_digit() && letter.is_alphabetic(),
        });
        match words.last_mut() {
            Some(word) if !begins || letter.is_ascii_digit() => word.extend(letter.to_lowercase()),
            _ => words.push(letter.to_lowercase().collect()),
        }
        begins = false;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `CubeToMetaTransformer.titleize` of `@cubejs-backend/schema-compiler` 1.7.43 gives.
    const CUBES: [(&str, &str); 17] = [
        ("total_amount", "Total Amount"),
        ("totalAmount", "Total Amount"),
        ("user_id", "User ID"),
        ("userIds", "User IDs"),
        ("count", "Count"),
        ("_hidden", "Hidden"),
        ("a__b", "A B"),
        ("orders_with_preagg", "Orders with Preagg"),
        ("HTTPServer", "Http Server"),
        ("count2", "Count2"),
        ("day30total", "Day30 Total"),
        ("day_30_total", "Day30 Total"),
        ("iDs", "I Ds"),
        ("ID", "ID"),
        ("the_end_of_the_day", "The End of the Day"),
        ("percentOfTotal", "Percent of Total"),
        ("ABC_DEF", "Abc Def"),
    ];

    #[test]
    fn titles_are_those_of_cube() {
        for (name, title) in CUBES {
            assert_eq!(title_of(name), title, "{name}");
        }
    }
}
